// Package api implements the server's HTTP interface: the JSON API for programs, and forward-auth
// for proxies, which ask before they forward a request. openapi.json describes the JSON API, and
// docs/api.md is generated from it. docs/proxies.md describes forward-auth.
//
//	a, err := api.New(guard, store, api.Config{})
//	...
//	mux.Handle("/", a.Handler())
//	mux.Handle("/auth", a.Auth())
//
// Support for another proxy that uses forward-auth needs only a directory in examples/proxies. If
// the proxy describes requests in other header fields, also add these fields in original.go.
// Support for a proxy with its own protocol belongs in a package next to this one, such as envoyrls
// for Envoy.
//
// The API trusts all attributes of a request that a caller sends, including claims and addresses.
// So by default it does not serve every caller; see [Config.Public]. [API.Auth] serves only proxies
// that the configuration trusts.
package api
