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

// TestF14Envoy changes Envoy's rules in all the wrong ways, and then in a right one.
func TestF14Envoy(t *testing.T) {
	wrong := map[string]string{
		"broken":    "domain: test\ndescriptors: [\n",
		"empty":     "",
		"no domain": "descriptors: []\n",
		"duplicate": moreRules + "  - {key: user, rate_limit: {unit: hour, requests_per_unit: 7}}\n",
		"mistaken":  strings.ReplaceAll(moreRules, "hour", "fortnight"),
		"binary":    "\x00\xff\xfe",
		"oversized": strings.Repeat("# padding\n", 2<<20) + moreRules,
	}
	for name, text := range wrong {
		t.Run(name, func(t *testing.T) {
			c := everywhere(t)
			file := filepath.Join(c.Envoy.Rules, "test.yaml")
			r := start(t, c)
			put(t, file, text)
			testkit.Eventually(t, "refused", func() bool {
				_, body := r.get(Admin, "/config", "")
				return strings.Contains(body, `"refused": 1`)
			})
			if got := r.limitOf("a"); got != 3 {
				t.Errorf("after a change that was refused the limit is %d, want 3", got)
			}
			if status, _ := r.get(HTTP, "/readyz", ""); status != 200 {
				t.Errorf("readiness: got %d, want 200", status)
			}
			if log := r.log.String(); strings.Count(log, "is refused") != 1 {
				t.Errorf("logged %s", log)
			}
			put(t, file, moreRules)
			testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
			if err := r.Reload(); err != nil {
				t.Errorf("got %v, want all good", err)
			}
		})
	}
	t.Run("removed", func(t *testing.T) {
		c := everywhere(t)
		r := start(t, c)
		if err := os.RemoveAll(c.Envoy.Rules); err != nil {
			t.Fatal(err)
		}
		if err := r.Reload(); err == nil {
			t.Error("got no error")
		}
		if got := r.limitOf("a"); got != 3 {
			t.Errorf("got a limit of %d, want 3", got)
		}
		put(t, filepath.Join(c.Envoy.Rules, "other.yaml"), moreRules)
		testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
	})
	t.Run("leftovers of editors", func(t *testing.T) {
		c := everywhere(t)
		r := start(t, c)
		for _, name := range []string{".test.yaml.swp", "test.yaml~", "#test.yaml#", ".#test.yaml", "4913",
			"test.yaml.bak"} {
			put(t, filepath.Join(c.Envoy.Rules, name), "domain: [")
		}
		if err := r.Reload(); err != nil {
			t.Errorf("got %v, want no notice of them", err)
		}
		put(t, filepath.Join(c.Envoy.Rules, "new"), moreRules)
		if err := os.Rename(filepath.Join(c.Envoy.Rules, "new"),
			filepath.Join(c.Envoy.Rules, "test.yaml")); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
	})
	t.Run("beside a large file of others", func(t *testing.T) {
		c := everywhere(t)
		large := filepath.Join(c.Envoy.Rules, "a.bin")
		put(t, large, "")
		if err := os.Truncate(large, 65<<20); err != nil {
			t.Fatal(err)
		}
		r := start(t, c)
		put(t, filepath.Join(c.Envoy.Rules, "notes.md"), "Nothing of ours.\n")
		if err := r.Reload(); err != nil || strings.Contains(r.log.String(), "has changed") {
			t.Errorf("got %v and %s, want no notice of them", err, r.log)
		}
		put(t, filepath.Join(c.Envoy.Rules, "test.yaml"), moreRules)
		testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
	})
	t.Run("ConfigMap", func(t *testing.T) {
		c := everywhere(t)
		link := func(to, name string) {
			t.Helper()
			name = filepath.Join(c.Envoy.Rules, name)
			if err := os.Symlink(to, name+".tmp"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+".tmp", name); err != nil {
				t.Fatal(err)
			}
		}
		put(t, filepath.Join(c.Envoy.Rules, "..1", "test.yaml"), rules)
		link("..1", "..data")
		link(filepath.Join("..data", "test.yaml"), "test.yaml")
		r := start(t, c)
		put(t, filepath.Join(c.Envoy.Rules, "..2", "test.yaml"), moreRules)
		link("..2", "..data")
		testkit.Eventually(t, "the new rules", func() bool { return r.limitOf("b") == 5 })
	})
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

// TestReloadOfTheStore says that it takes another start.
func TestReloadOfTheStore(t *testing.T) {
	c := everywhere(t)
	r := start(t, c)
	put(t, c.Policies, "store: {url: redis://localhost:1}\nfailure: {mode: deny}\n"+five)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"another store", "the number of instances"} {
		if log := r.log.String(); strings.Count(log, want) != 1 {
			t.Errorf("logged %s, want %q", log, want)
		}
	}
	if status, body := r.take(""); status != 200 {
		t.Errorf("got %d, %s", status, body)
	}
}
