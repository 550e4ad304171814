// Package config is for programs that read their policies from YAML files. It reads the policies
// and the sections of the server (store, headers, outbound APIs, gateway), reports all mistakes
// together, each with file, line and fix, and reloads files when they change. Start with [Load]:
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
// The document in a file is a value of the types in document.go. It is translated to a
// [policy.Spec], from which package policy makes the set: what a file says can be written in Go.
// One thing is only in files: claims: {user: ""} lists a claim that the application passes, so that
// no warning mentions it. In Go such a claim is left out. docs/configuration.md has all keys.
package config
