package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// limitOf returns the limit in Envoy's answer, for a new user.
func (r *running) limitOf(user string) uint32 {
	r.t.Helper()
	answer, err := ask(r.t.Context(), r.dial(), user)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
}

// TestReload looks at everything at once, and tells of everything that is wrong.
func TestReload(t *testing.T) {
	c := everywhere(t)
	r := start(t, c)
	put(t, c.Policies, five)
	put(t, filepath.Join(c.Envoy.Rules, "test.yaml"), moreRules)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := r.limitOf("a"); got != 5 {
		t.Errorf("Envoy: got a limit of %d, want 5", got)
	}
	if _, body := r.take(""); !strings.Contains(body, `"max":5`) {
		t.Errorf("got %s, want a limit of 5", body)
	}
	put(t, c.Policies, "tiers: []\n")
	put(t, filepath.Join(c.Envoy.Rules, "test.yaml"), "domain: 1\nrules: 2\n")
	err := r.Reload()
	for _, want := range []string{"policies: " + c.Policies + ":1: ",
		"envoy: " + filepath.Join(c.Envoy.Rules, "test.yaml") + ":2: "} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, body := r.take(""); !strings.Contains(body, `"max":5`) {
		t.Errorf("got %s, want a limit of 5", body)
	}
	_, body := r.get(Admin, "/config", "")
	for _, want := range []string{`"name": "policies"`, `"changes": 1`, `"refused": 1`, "stint.yaml:1: ",
		"test.yaml:2: "} {
		if !strings.Contains(body, want) {
			t.Errorf("/config: got %s, want %q", body, want)
		}
	}
}

// TestReloadOfTheStore: a reload says what takes effect at the next start only. It does not say so of
// a URL if a flag names the store.
func TestReloadOfTheStore(t *testing.T) {
	const store = "the policies name another store, prefix, certificate or name key; it takes effect at the next start"
	const others = "the number of instances"
	for _, test := range []struct {
		flag, before, policies string // before are the policies at the start
		store, others          int    // how often each is logged
	}{
		{"", "", "store: {url: redis://localhost:1}\nfailure: {mode: deny}\n", 1, 1},
		{memoryStore, "", "store: {url: redis://localhost:1}\n", 0, 0},
		{memoryStore, "", "store: {name_key_file: new.key}\n", 1, 0},
		{memoryStore, "store: {name_key_file: a.key}\n", "store: {name_key_file: a.key, url: redis://localhost:1}\n", 0, 0},
	} {
		c := everywhere(t)
		c.Store = test.flag
		put(t, c.Policies, test.before+five)
		put(t, filepath.Join(filepath.Dir(c.Policies), "a.key"), strings.Repeat("k", 32))
		r := start(t, c)
		put(t, c.Policies, test.policies+five)
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{store: test.store, others: test.others} {
			if log := r.log.String(); strings.Count(log, text) != want {
				t.Errorf("%q: logged %s, want %q %d times", test.policies, log, text, want)
			}
		}
		if status, body := r.take(""); status != 200 {
			t.Errorf("%q: got %d, %s", test.policies, status, body)
		}
	}
}

// TestF14Envoy: wrong changes of Envoy's rules are refused, and a right one is used. Package envoyrls
// tests what is wrong, and package reload what editors and ConfigMaps do to files.
func TestF14Envoy(t *testing.T) {
	c := everywhere(t)
	file := filepath.Join(c.Envoy.Rules, "test.yaml")
	r := start(t, c)
	for name, text := range map[string]string{
		"broken":    "domain: test\ndescriptors: [\n",
		"oversized": strings.Repeat("# padding\n", 2<<20) + moreRules,
		"removed":   "-",
	} {
		put(t, file, text)
		if name == "removed" {
			if err := os.RemoveAll(c.Envoy.Rules); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Reload(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := r.limitOf(name); got != 3 {
			t.Errorf("%s: the limit is %d, want 3", name, got)
		}
		if status, _ := r.get(HTTP, "/readyz", ""); status != 200 {
			t.Errorf("%s: readiness: got %d, want 200", name, status)
		}
	}
	put(t, filepath.Join(c.Envoy.Rules, "other.yaml"), moreRules)
	_ = os.Remove(file)
	testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
}
