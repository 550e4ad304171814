// Package config reads policies and the settings of the server (store, headers, outbound APIs,
// gateway) from YAML files. It reports all mistakes together, each with file, line and fix, and
// reloads files when they change. Start with [Load]:
//
//	c, err := config.Load("stint.yaml")
//	...
//	store, err := c.OpenStore(ctx, stores.Config{})
//	...
//	guard, err := policy.NewGuard(store, c.Set, policy.GuardConfig{})
//	...
//	watcher := &config.Watcher{Path: "stint.yaml", Guard: guard}
//	go watcher.Run(ctx)
//
// A file is decoded into the types in document.go. This package translates their values to a
// [policy.Spec], and package policy makes a [policy.Set] from that. So anything in a file can also
// be written in Go, with one exception: in a file, claims: {user: ""} lists a claim that the
// application passes, so that it causes no warning. In Go, leave out such a claim.
// docs/configuration.md lists all keys.
package config
