package main

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// TestStoreFlag checks that the flag takes precedence over the environment, which takes precedence
// over the policies.
func TestStoreFlag(t *testing.T) {
	const other = "redis://other:6379/1"
	tests := []struct{ flag, environment, want string }{
		{"", "", ""}, // as set in the policies
		{"", other, other},
		{"memory", other, "memory"},
		{"redis", "", urlExample},
		{"redis", " \n", urlExample},
		{"redis", other, other},
		{"redis", other + "\n", other}, // a URL from a file
		{"redis://flag:6379", other, "redis://flag:6379"},
	}
	for _, test := range tests {
		t.Setenv(redisEnv, test.environment)
		f := daemonFlags{Store: test.flag}
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		if c, err := f.configuration(&system{Stderr: io.Discard}); err != nil || c.Store != test.want {
			t.Errorf("--store=%q and %s=%q: got %q, %v; want %q", test.flag, redisEnv, test.environment, c.Store,
				err, test.want)
		}
	}
}

// TestAlertFlags sets thresholds, and a webhook from a file.
func TestAlertFlags(t *testing.T) {
	f := daemonFlags{Alert: []string{"BlockedShare=0.2", "StoreDown=0", "Spike=off"},
		WebhookIn: testkit.TempFile(t, "webhook", "  https://hooks.example/1\n")}
	c, err := f.observe()
	want := observe.AlertConfig{Webhook: "https://hooks.example/1",
		Thresholds: map[string]float64{"BlockedShare": 0.2, "StoreDown": 0, "Spike": math.Inf(1)}}
	if err != nil || !reflect.DeepEqual(c.Alerts, want) {
		t.Errorf("got %+v, %v; want %+v", c.Alerts, err, want)
	}
}

// TestDaemonMistakes checks that mistakes are reported before anything is served, and without
// secrets.
func TestDaemonMistakes(t *testing.T) {
	const secret = "KwxQ"
	t.Setenv(redisEnv, "")
	limited := testkit.TempFile(t, "limited.yaml", small)
	routed := testkit.TempFile(t, "routed.yaml", "tiers:\n  - {name: all, identity: ip, limits: 3/1h}\ngateway: {routes: [{upstream: 'http://a:70000'}]}\n")
	badHook := testkit.TempFile(t, "webhook", "hooks.example/"+secret)
	busy := httptest.NewServer(nil)
	defer busy.Close()
	taken := busy.Listener.Addr().String()
	tests := []struct {
		args []string
		code int
		want string // end of the last line of standard error
	}{
		{[]string{"serve", "--alert", "Spike"}, exitUsage, `--alert: "Spike"; want a name and a threshold, such as "BlockedShare=0.2" or "Spike=off"`},
		{[]string{"serve", "--breaker-probe", "1ms"}, exitUsage, `"1ms" is too short; want 10ms or more`},
		{[]string{"serve", "--drain", "soon"}, exitUsage, `--drain: invalid duration "soon"; want one such as 500ms, 30s, 1h30m or 7d, at most a year`},
		{[]string{"serve", "--drain", "2 weeks"}, exitUsage, `7d, at most a year (did you mean 14d?)`},
		{[]string{"serve", "--drain", "5"}, exitUsage, `7d, at most a year (did you mean 5s?)`},
		{[]string{"serve", "--drain=-5s"}, exitUsage, `--drain: invalid duration "-5s"; want one such as 500ms, 30s, 1h30m or 7d, at most a year`},
		{[]string{"serve", "--drain", "1 month"}, exitUsage, `7d, at most a year`},
		{[]string{"serve", "--keep-denials", "366d1ms"}, exitUsage, `7d, at most a year`},
		{[]string{"demo", "--for=0s"}, exitUsage, `--for: invalid duration "0s"; want at least 1ms, in whole microseconds`},
		{[]string{"serve", "--http", taken}, exitBad, `address already in use; stop the program that listens there, or choose another address`},
		{[]string{"serve", "--log-level", "loud"}, exitUsage, `--log-level: unknown level "loud"; want debug, info, warn or error`},
		{[]string{"serve", "--config", "none.yaml"}, exitBad, `stint: config: stat none.yaml: no such file or directory`},
		{[]string{"serve", "--admin", "0.0.0.0:0", "--no-admin-token", "--http", "127.0.0.1:0"}, exitBad, `or use tokens (without --no-admin-token, or with --admin-token-file)`},
		{[]string{"gateway"}, exitUsage, `missing flags: --upstream=URL, --route=ROUTE, or --config=FILE with gateway.routes`},
		{[]string{"gateway", "--upstream", "a"}, exitUsage, `gateway: --upstream: invalid upstream "a"; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
		{[]string{"gateway", "--route", "/api=http://a", "--route", "/api/=http://b"}, exitUsage, `gateway: --route /api/ matches the same requests as --route /api; remove one of them`},
		{[]string{"gateway", "--upstream", "http://a", "--strip-prefix"}, exitUsage, `gateway: --strip-prefix is for --route; in the configuration set strip_prefix: true on a route`},
		{[]string{"gateway", "--config", routed, "--rewrite-host"}, exitUsage, `gateway: --rewrite-host is for --upstream and --route; in the configuration set rewrite_host: true on a route`},
		{[]string{"serve", "--store-memory", "1KB"}, exitUsage, `--store-memory: 1000 bytes are too few; want 1MiB or more`},
		{[]string{"serve", "--store-memory", "1MiB", "--store", "redis://:" + secret + "@localhost", "--http", "127.0.0.1:0"},
			exitBad, `stint: server: --store-memory is for the store in memory, and the store is redis://:xxxxx@localhost; for decisions without Redis set failure.memory in the policies`},
		{[]string{"gateway", "--upstream", "http://a", "--reserved", "X User"}, exitUsage, `gateway: --reserved: invalid header name "X User"; want one such as X-User-ID`},
		{[]string{"gateway", "--upstream", "https://a", "--upstream-ca", limited}, exitBad,
			`stint: --upstream-ca: ` + limited + `: no CA certificate in PEM form`},
		{[]string{"serve", "--alert-webhook-file", badHook}, exitUsage, `--alert-webhook-file: invalid webhook URL; want one such as "https://example.com/alerts"`},
		{[]string{"serve", "--alert-webhook", "hooks.example/" + secret}, exitUsage, `--alert-webhook: invalid webhook URL; want one such as "https://example.com/alerts"`},
		{[]string{"serve", "--alert-webhook-file", "none"}, exitUsage, `--alert-webhook-file: open none: no such file or directory`},
		{[]string{"serve", "--alert-webhook-file", badHook, "--alert-webhook", "https://hooks.example/" + secret}, exitUsage,
			`--alert-webhook and --alert-webhook-file cannot be used together`},
		{[]string{"demo", "--rate=0"}, exitUsage, "--rate: 0; want 1 to 2000"},
		{[]string{"demo", "--store=reddis"}, exitUsage, `--store: want memory, redis, or a URL such as redis://localhost:6379/0 (did you mean "redis"?)`},
		{[]string{"demo", "--incident=flod"}, exitUsage, `--incident: "flod"; want flood or outage (did you mean "flood"?)`},
		{[]string{"demo", "--incident=outage", "--store=redis"}, exitUsage, "--incident outage: the demo starts its own Redis server; remove --store"},
		{[]string{"demo", "--for=soon"}, exitUsage, `--for: invalid duration "soon"; want one such as 500ms, 30s, 1h30m or 7d, at most a year`},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := execute(t, "", test.args...)
			if got.code != test.code || !strings.HasSuffix(got.stderr, test.want+"\n") ||
				strings.Contains(got.stderr, secret) {
				t.Errorf("exit code %d, errors:\n%s\nwant %d, %q", got.code, got.stderr, test.code, test.want)
			}
		})
	}
}

// daemons runs the tests in which the real program serves.
func daemons(t *testing.T, binary string) {
	for name, test := range map[string]func(*testing.T, string){
		"signals":       serveSignals,
		"second signal": secondSignal,
		"stalled log":   stalledLog,
		"closed log":    closedLog,
		"token":         tokenBinary,
		"secrets":       secretsBinary,
	} {
		t.Run(name, func(t *testing.T) { test(t, binary) })
	}
}

// serveSignals checks that a daemon reloads on SIGHUP, and ends on SIGTERM.
func serveSignals(t *testing.T, binary string) {
	file := testkit.TempFile(t, "stint.yaml", "tiers:\n  - {name: all, identity: ip, limits: 3/1h}\n")
	const question = `{"method":"GET","path":"/","peer":"192.0.2.1"}`
	d := launch(t, binary, "serve", "--config", file, "--http", "127.0.0.1:0", "--drain", "0s")

	replace := func(text string) {
		t.Helper()
		testkit.WriteFile(t, file, text)
		d.signal(syscall.SIGHUP)
		if a, b := d.state(), d.state(); a != "RELOADING=1" || b != "READY=1" {
			t.Errorf("notified %q and %q, want that it was reloading and is ready", a, b)
		}
	}
	if _, body := d.post("/v1/take", question); !strings.Contains(body, `"max":3`) {
		t.Errorf("got %s, want a limit of 3", body)
	}
	replace("tiers:\n  - {name: all, identity: ip, limits: 4/1h}\n")
	if _, body := d.post("/v1/take", question); !strings.Contains(body, `"max":4`) {
		t.Errorf("got %s, want a limit of 4", body)
	}
	replace("tiers: [\n")
	if _, body := d.post("/v1/take", question); !strings.Contains(body, `"max":4`) {
		t.Errorf("got %s, want a limit of 4 after a broken change", body)
	}
	d.log.Await(t, "the configuration was refused; the last good version stays in force")
	if _, body := d.get(server.Admin, "/config"); !strings.Contains(body, file+":") {
		t.Errorf("got %s, want the mistake", body)
	}
	d.signal(syscall.SIGTERM)
	if got := d.state(); got != "STOPPING=1" {
		t.Errorf("notified %q, want that it is stopping", got)
	}
	if code := d.exit(); code != exitGood {
		t.Errorf("exit code %d, want 0", code)
	}
}

// secondSignal checks that a second signal ends a daemon without waiting for load balancers.
func secondSignal(t *testing.T, binary string) {
	d := launch(t, binary, "serve", "--http", "127.0.0.1:0", "--drain", "1d")
	d.signal(syscall.SIGINT)
	if got := d.state(); got != "STOPPING=1" {
		t.Errorf("notified %q, want that it is stopping", got)
	}
	d.waitReady(http.StatusServiceUnavailable)
	d.signal(syscall.SIGHUP) // does not count as the second signal
	if status, _ := d.get(server.HTTP, "/livez"); status != 200 {
		t.Errorf("liveness: got %d, want 200", status)
	}
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != exitBad || !strings.Contains(d.log.String(), "stopped immediately by a second signal") {
		t.Errorf("exit code %d, logged %s", code, d.log.String())
	}
}
