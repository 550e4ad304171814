package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// limitOf returns the limit in Envoy's answer, for a new user.
func (r *running) limitOf(user string) uint32 {
	r.t.Helper()
	answer := testkit.Must(ask(r.t.Context(), r.dial(), user))(r.t)
	return answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
}

// TestReload looks at everything at once, and tells of everything that is wrong.
func TestReload(t *testing.T) {
	c := everywhere(t)
	r := start(t, c)
	testkit.WriteFile(t, c.Policies, five)
	testkit.WriteFile(t, filepath.Join(c.Envoy.Rules, "test.yaml"), moreRules)
	r.wantReload("")
	if got := r.limitOf("a"); got != 5 {
		t.Errorf("Envoy: got a limit of %d, want 5", got)
	}
	r.wantTake("", 200, `"max":5`)
	testkit.WriteFile(t, c.Policies, "tiers: []\n")
	testkit.WriteFile(t, filepath.Join(c.Envoy.Rules, "test.yaml"), "domain: 1\nrules: 2\n")
	r.wantReload("policies: " + c.Policies + ":1: ")
	r.wantReload("envoy: " + filepath.Join(c.Envoy.Rules, "test.yaml") + ":2: ")
	r.wantTake("", 200, `"max":5`)
	for _, want := range []string{`"name": "policies"`, `"changes": 1`, `"refused": 1`, "stint.yaml:1: ", "test.yaml:2: "} {
		r.wantGet(Admin, "/config", "", 200, want)
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
		testkit.WriteFile(t, c.Policies, test.before+five)
		testkit.WriteFile(t, filepath.Join(filepath.Dir(c.Policies), "a.key"), strings.Repeat("k", 32))
		r := start(t, c)
		testkit.WriteFile(t, c.Policies, test.policies+five)
		r.wantReload("")
		for text, want := range map[string]int{store: test.store, others: test.others} {
			if log := r.log.String(); strings.Count(log, text) != want {
				t.Errorf("%q: logged %s, want %q %d times", test.policies, log, text, want)
			}
		}
		r.wantTake("", 200, "")
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
		testkit.WriteFile(t, file, text)
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
		r.wantGet(HTTP, "/readyz", "", 200, "")
	}
	testkit.WriteFile(t, filepath.Join(c.Envoy.Rules, "other.yaml"), moreRules)
	_ = os.Remove(file)
	testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
}
