package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// examine runs the doctor and returns its findings by name. It checks the exit code, but ignores a
// bad latency, which depends on the machine.
func examine(t *testing.T, code int, args ...string) map[string]finding {
	t.Helper()
	t.Setenv("STINT_SERVER", "")
	got := execute(t, "", append([]string{"doctor", "--json"}, args...)...)
	var result struct{ Checks findings }
	err := json.Unmarshal([]byte(got.stdout), &result)
	if slices.ContainsFunc(result.Checks, func(f finding) bool { return f.Name == "latency" && f.Result != resultOK }) {
		result.Checks = slices.DeleteFunc(result.Checks, func(f finding) bool { return f.Name == "latency" })
		if result.Checks.good() && got.code == exitBad {
			got.code = exitGood
		}
	}
	if err != nil || got.code != code || got.stderr != "" {
		t.Fatalf("%v: exit code %d, %v, errors %q, output:\n%s\nwant %d", args, got.code, err, got.stderr, got.stdout, code)
	}
	found := map[string]finding{}
	for _, one := range result.Checks {
		if before, ok := found[one.Name]; !ok || before.Result == resultOK {
			found[one.Name] = one
		}
	}
	return found
}

func wantFinding(t *testing.T, found map[string]finding, name, result, text, fix string) {
	t.Helper()
	if got := found[name]; got.Result != result || !strings.Contains(got.Found, text) || !strings.Contains(got.Fix, fix) {
		t.Errorf("%s: got %+v; want %s, %q, %q", name, got, result, text, fix)
	}
}

func TestDoctorSickRedis(t *testing.T) {
	redis := redistest.Start(t, "--appendonly", "yes", "--maxmemory-policy", "allkeys-lru")
	redis.CLI(t, "EVAL", "for i = 1, 50000 do redis.call('SET', 'ballast:' .. i, 'x') end", "0")
	redis.CLI(t, "CONFIG", "SET", "maxmemory", infoField(redis.CLI(t, "INFO", "memory"), "used_memory"))
	found := examine(t, exitBad, "--store", redis.URL())
	wantFinding(t, found, "eviction", resultFail, "maxmemory-policy is allkeys-lru",
		" CONFIG SET maxmemory-policy noeviction")
	wantFinding(t, found, "memory", resultWarn, "when memory is full, every charge fails", " CONFIG SET maxmemory ")
	wantFinding(t, found, "persistence", resultOK, "append-only file", "")
	wantFinding(t, found, "scripts", resultOK, "", "")
}

func TestDoctorUnreachableRedis(t *testing.T) {
	wantFinding(t, examine(t, exitBad, "--store", "redis://127.0.0.1:1"), "connection", resultFail,
		"127.0.0.1:1", "Start it")
	redis := redistest.Start(t)
	redis.CLI(t, "ACL", "SETUSER", "limiter", "on", ">secret", "~*", "&*", "+@all")
	locked := redistest.Start(t)
	locked.CLI(t, "CONFIG", "SET", "requirepass", "secret")
	wantFinding(t, examine(t, exitBad, "--store", locked.URL()), "connection", resultFail,
		"requires a password, and the URL has none", "put REDIS_URL=redis://:PASSWORD@"+locked.Addr()+" into the environment, and run stint doctor --store redis")
	wrong := strings.Replace(redis.URL(), "redis://", "redis://limiter:wrong@", 1)
	found := examine(t, exitBad, "--store", wrong)
	wantFinding(t, found, "connection", resultFail, `does not accept the user "limiter"`,
		"ACL SETUSER limiter on '>PASSWORD'")
	for _, one := range found {
		if strings.Contains(one.Found+one.Fix, "wrong@") {
			t.Errorf("the password is shown: %+v", one)
		}
	}
}

// TestDoctorPermissions removes permissions, and applies the doctor's fixes until all checks are
// ok.
func TestDoctorPermissions(t *testing.T) {
	redis := redistest.Start(t)
	setUser := func(rules ...string) {
		redis.CLI(t, append([]string{"ACL", "SETUSER", "limiter", "reset", "on", ">secret"}, rules...)...)
	}
	url := strings.Replace(redis.URL(), "redis://", "redis://limiter:secret@", 1)
	setUser(append([]string{"-@all"}, allPermissions(defaultPrefix)...)...)
	found := examine(t, exitBad, "--store", url)
	wantFinding(t, found, "looking", resultWarn, `the user "limiter" lacks +scan +info +dbsize`,
		"ACL SETUSER limiter +scan +info +dbsize")
	for _, name := range []string{"version", "eviction", "memory", "persistence", "replication"} {
		if one, ok := found[name]; ok {
			t.Errorf("found without INFO: %+v", one)
		}
	}
	all := append([]string{"-@all", "+scan", "+info", "+dbsize"}, allPermissions(defaultPrefix)...)
	setUser(all...)
	wantFinding(t, examine(t, exitGood, "--store", url), "permissions", resultOK, `"limiter"`, "")

	for _, missing := range []string{"+get", "+zincrby", "+publish", "~stint:*", "&stint:room"} {
		setUser(slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == missing })...)
		got := examine(t, exitBad, "--store", url)["permissions"]
		_, grant, ok := strings.Cut(got.Fix, " ACL SETUSER limiter ")
		if got.Result != resultFail || !ok || strings.Trim(grant, "'") != missing {
			t.Errorf("without %s: got %+v", missing, got)
		}
	}

	setUser("-@all", "+hello", "+auth", "+client|setname", "+ping", "+scan", "+info", "+dbsize")
	for range 3 { // one missing permission can hide others
		_, grant, _ := strings.Cut(examine(t, exitBad, "--store", url)["permissions"].Fix, " ACL SETUSER limiter ")
		redis.CLI(t, append([]string{"ACL", "SETUSER", "limiter"},
			strings.Fields(strings.ReplaceAll(grant, "'", ""))...)...)
		if got := execute(t, "", "doctor", "--store", url); !strings.Contains(got.stdout, resultFail+"  permissions") {
			examine(t, exitGood, "--store", url)
			return
		}
	}
	t.Error("what the doctor says does not help")
}

func TestDoctorServer(t *testing.T) {
	state := func(change func(*control.State)) string {
		s := control.State{
			Version: "v1.2.3",
			Store:   observe.StoreHealth{Kind: "memory", Name: "memory", Up: true},
			Alerts:  []observe.Alert{{Name: "Spike", State: "ok"}},
			Config: control.ConfigState{Phase: "ready",
				Sources: []control.SourceState{{Name: "policies", Path: "stint.yaml"}}},
		}
		change(&s)
		return answering(t, map[string]any{"/readyz": "ready", "/api/state": s})
	}
	found := examine(t, exitGood, "--server", state(func(*control.State) {}))
	for _, name := range []string{"server", "version", "configuration", "store", "alerts"} {
		wantFinding(t, found, name, resultOK, "", "")
	}
	found = examine(t, exitBad, "--server", state(func(s *control.State) {
		s.Config.Sources[0].Error = "stint.yaml:3: wrong\nmore"
		s.Store.Name, s.Store.Up, s.Store.LastError, s.Store.Warnings = "redis://a", false, "refused", []string{"it may evict"}
		s.Store.Outage = &observe.Outage{Is: "is out of memory", Error: "OOM", Fix: "Raise it."}
		s.Alerts = []observe.Alert{{Name: "StoreDown", State: "firing", Severity: "page", Summary: "It is down."}}
	}))
	wantFinding(t, found, "configuration", resultFail, "the last valid one stays in force: stint.yaml:3: wrong", "stint config check stint.yaml")
	wantFinding(t, found, "store", resultFail, "redis://a is out of memory: OOM",
		"Raise it. More: stint doctor --store redis://a")
	wantFinding(t, found, "alert", resultFail, "StoreDown: It is down.", "")

	closed := httptest.NewServer(nil)
	closed.Close()
	found = examine(t, exitBad, "--server", closed.URL, "--config", "none.yaml")
	wantFinding(t, found, "policies", resultFail, "none.yaml: no such file or directory",
		"stint config check none.yaml")
	broken := testkit.TempFile(t, "broken.yaml", "tiers: []\npolices: []\n")
	found = examine(t, exitBad, "--server", closed.URL, "--config", broken)
	wantFinding(t, found, "policies", resultFail, "(and 1 more)", "stint config check "+broken)
	wantFinding(t, examine(t, exitBad, "--server", closed.URL), "server", resultFail, "no stint server at", "stint serve")
	wantFinding(t, examine(t, exitBad, "--server", answering(t, map[string]any{"/readyz": "ready"})), "state",
		resultFail, "404", "")
	wantFinding(t, examine(t, exitBad, "--server", answering(t, nil)), "server", resultFail,
		"want the admin listener of stint", "stint doctor --server "+localAdmin)
	draining := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, http.StatusServiceUnavailable, "draining", "It is being stopped.")
	}))
	defer draining.Close()
	wantFinding(t, examine(t, exitBad, "--server", draining.URL), "server", resultFail,
		"not ready: It is being stopped.", "wait")
}

func TestDoctorHealthyRedis(t *testing.T) {
	redis := redistest.Start(t)
	found := examine(t, exitGood, "--store", redis.URL(), "--config", example)
	for _, name := range []string{"policies", "permissions", "scripts", "version", "eviction", "memory", "clock",
		"persistence", "replication"} {
		wantFinding(t, found, name, resultOK, "", "")
	}
	// Only the note of the reset is left. It expires. Until then, it prevents a late settlement
	// from restoring usage that the reset cleared.
	for _, key := range strings.Fields(redis.CLI(t, "KEYS", "*doctor*")) {
		if ttl := redis.CLI(t, "TTL", key); !strings.HasSuffix(key, ":settled") || strings.HasPrefix(ttl, "-") {
			t.Errorf("left behind: %s with a TTL of %s", key, ttl)
		}
	}
	if got := execute(t, "", "doctor", "--store", redis.URL()); !strings.Contains(got.stdout, "ok    eviction     noeviction\n") {
		t.Errorf("got %s", got.stdout)
	}
}
