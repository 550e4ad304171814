package config_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// A guard applies the policies of a configuration.
func Example() {
	conf, err := config.Parse("stint.yaml", []byte(`
tiers:
  - {name: signed-in, identity: user, limits: 100/1m}
  - {name: anonymous, identity: everyone, limits: 10/1m}
policies:
  - {name: login, match: {method: POST, path: /login}, limits: 2/15m}
`))
	if err != nil {
		log.Fatal(err)
	}
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	guard, _ := policy.NewGuard(store, conf.Set, policy.GuardConfig{})
	var v policy.Verdict
	err = guard.Decide(context.Background(), &policy.Input{Method: "POST", Path: "/login"}, &v)
	fmt.Println(v.Tier, v.Route, v.Decision.Allowed, v.Decision.Remaining(), err)
	// Output:
	// anonymous login true 1 <nil>
}

// Load reads a file, or all files of a directory.
func ExampleLoad() {
	dir, _ := os.MkdirTemp("", "stint")
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "tiers.yaml"), []byte("tiers: [{name: anyone, identity: ip, limits: 100/1m}]"), 0o600)
	conf, err := config.Load(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, rule := range conf.Set.Rules() {
		fmt.Println(rule.Name(), rule.Limits)
	}
	// Output:
	// anyone [100/1m]
}

// All mistakes are reported at once, each with its line and a fix.
func ExampleParse() {
	_, err := config.Parse("stint.yaml", []byte(`
tiers:
  - name: pro
    match: {claim: {plan: pro}}
    identity: usr
    limits: [100/1m burst 3x, 2000/1w]
  - name: anonymous
    identity: ip
    limit: 10/1m
policies:
  - name: export
    match: {path: /export}
    rollout: 25
    limits: {anon: 1/1m, pro: 10/1m}
`))
	fmt.Println(err)
	// Output:
	// stint.yaml:4: warning: tiers[0].match.claim.plan: no header sets the claim "plan"; want one under claims, or claims: {plan: ""} if the application passes it
	// stint.yaml:5: tiers[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)
	// stint.yaml:6: tiers[0].limits[1]: "2000/1w": window "1w": want a duration such as "1s", "1m30s", "1h" or "1d", or a day, week, month or year
	// stint.yaml:9: tiers[1].limit: unknown key (did you mean "limits"?)
	// stint.yaml:13: policies[0].rollout: want a percentage from 0% to 100%; got "25": write 25%
	// stint.yaml:14: policies[0].limits.anon: unknown tier "anon"; want default, pro or anonymous
}

// A watcher applies changes of the files to a guard. Invalid files change nothing.
func ExampleWatcher() {
	dir, _ := os.MkdirTemp("", "stint")
	defer os.RemoveAll(dir)
	write := func(text string) { _ = os.WriteFile(filepath.Join(dir, "stint.yaml"), []byte(text), 0o600) }
	write("tiers: [{name: anyone, identity: ip, limits: 100/1m}]")
	conf, _ := config.Load(dir)
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	guard, _ := policy.NewGuard(store, conf.Set, policy.GuardConfig{})
	watcher := &config.Watcher{Path: dir, Guard: guard, Logger: slog.New(slog.DiscardHandler)}
	watcher.Reload() // or go watcher.Run(ctx), which waits for changes

	for _, limit := range []string{"200/1m", "none"} {
		write("tiers: [{name: anyone, identity: ip, limits: " + limit + "}]")
		reload := watcher.Reload()
		fmt.Println(guard.Set().Rules()[0].Limits, reload.Changed, reload.Err != nil)
	}
	// Output:
	// [200/1m] true false
	// [200/1m] false true
}
