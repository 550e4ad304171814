// Package api is the server's HTTP interface: the JSON API for programs, and forward-auth for
// proxies, which ask before they forward a request. openapi.json, from which docs/api.md is
// generated, describes the one, docs/proxies.md the other.
//
//	a, err := api.New(guard, store, api.Config{})
//	...
//	mux.Handle("/", a.Handler())
//	mux.Handle("/auth", a.Auth())
//
// A new proxy that can ask by forward-auth needs no code, only a directory in examples/proxies. If
// it describes the request in other header fields, add them in original.go. A proxy with a protocol
// of its own gets a package next to this one, as Envoy has with envoyrls.
//
// All attributes of a request are the caller's word, claims and addresses too, so not every caller
// may ask: see [Config.Public]. [API.Auth] answers only proxies that the configuration trusts.
package api
