package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
)

const small = "tiers: [{name: all, identity: ip, limits: 10/1m}]\n"

// bad has a limit that cannot be read and a name that nothing has.
const bad = `tiers:
  - name: all
    identity: ip
    limits: 10/fortnight
policies:
  - name: login
    match: {path: /login}
    identity: users
    limits: 5/15m
`

func TestCheckGood(t *testing.T) {
	unlimited := write(t, "unlimited.yaml", "tiers: [{name: all, identity: ip, limits: unlimited}]\n")
	routes := write(t, "routes.yaml", small+"gateway: {routes: [{upstream: http://a}, {host: [b, c], upstream: http://b}]}\n")
	tests := []struct {
		stdin string
		path  string
		want  string
	}{
		{"", routes, routes + ": good: 1 tier, 0 policies, 0 outbound APIs, 3 gateway routes\n"},
		{"", example, example + ": good: 5 tiers, 7 policies, 4 outbound APIs\n"},
		{small, "-", "<stdin>: good: 1 tier, 0 policies, 0 outbound APIs\n"},
		{"", unlimited, unlimited + ": good: 1 tier, 0 policies, 0 outbound APIs\n"},
	}
	for _, test := range tests {
		if got, want := execute(t, test.stdin, "config", "check", test.path), (result{stdout: test.want}); got != want {
			t.Errorf("%s: got %+v, want %+v", test.path, got, want)
		}
	}
}

// TestCheckAll reports everything about every argument: the mistakes in their order, and what is
// good beside them.
func TestCheckAll(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"good.yaml": small, "bad.yaml": bad, "conf.d/a.yaml": small,
		"conf.d/b.yaml": bad, "empty.d/readme": ""} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := execute(t, "tears: []", "config", "check", "bad.yaml", "good.yaml", "conf.d", "empty.d", "none.yaml", "-")
	if want := "good.yaml: good: 1 tier, 0 policies, 0 outbound APIs\n"; got.code != exitBad || got.stdout != want {
		t.Errorf("exit code %d, output %q; want 1, %q", got.code, got.stdout, want)
	}
	wants := []string{
		"bad.yaml:4: tiers[0].limits: ",
		"bad.yaml:8: policies[0].identity: ",
		"conf.d/b.yaml:4: tiers[0].limits: ",
		"conf.d/b.yaml:8: policies[0].identity: ",
		"empty.d:1: no rules: the directory has no *.yaml or *.yml file",
		"stint: none.yaml: no such file or directory",
		"<stdin>:1: tears: ",
	}
	rest := got.stderr
	for _, want := range wants {
		_, after, ok := strings.Cut("\n"+rest, "\n"+want)
		if !ok {
			t.Fatalf("no %q, or not in its order, in:\n%s", want, got.stderr)
		}
		rest = after
	}
}

func TestCheckJSON(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	got := execute(t, "tiers: []\n", "config", "check", "--json", example, missing, "-")
	if got.code != exitBad || got.stderr != "" {
		t.Errorf("exit code %d, errors %q; want 1 and none", got.code, got.stderr)
	}
	var all []checked
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil {
		t.Fatalf("%v in:\n%s", err, got.stdout)
	}
	for i := range all {
		for j := range all[i].Mistakes {
			m := &all[i].Mistakes[j]
			if m.Message == "" {
				t.Errorf("%+v says nothing", m)
			}
			m.Message = ""
		}
	}
	want := []checked{
		{Name: example, Good: true, Summary: &summary{Tiers: 5, Policies: 7, Outbound: 4}},
		{Name: missing, Mistakes: []config.Mistake{{File: missing}}},
		{Name: "<stdin>", Mistakes: []config.Mistake{{File: "<stdin>", Line: 1, Key: "tiers"}}},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got %+v, want %+v", all, want)
	}
}

// TestCheckStdinOnce refuses a second standard input, which would be empty, before anything is
// read.
func TestCheckStdinOnce(t *testing.T) {
	got := execute(t, small, "config", "check", "-", example, "-")
	want := "stint: config check: standard input (-) is given 2 times; want it once, because it can be read only once\n"
	if got.code != exitUsage || got.stdout != "" ||
		!strings.HasPrefix(got.stderr, "Usage: stint config check <path> ...") || !strings.HasSuffix(got.stderr, want) {
		t.Errorf("exit code %d, output %q, errors:\n%s\nwant 2, none, %q", got.code, got.stdout, got.stderr, want)
	}
}

// TestCheckHuge does not read standard input to its end if it has none.
func TestCheckHuge(t *testing.T) {
	got := execute(t, strings.Repeat("# a comment\n", maxStdin), "config", "check", "-")
	if got.code != exitBad || !strings.HasPrefix(got.stderr, "<stdin>:1: oversized") {
		t.Errorf("got %+v, want that it is oversized", got)
	}
}

// TestCheckEnvoy reads the rules of Envoy's service as serve does.
func TestCheckEnvoy(t *testing.T) {
	const shop = "domain: shop\ndescriptors:\n  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	directory := t.TempDir()
	path := func(name, text string) string {
		name = filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := path("good.yaml", shop)
	wrong := path("wrong.yaml", "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: {unit: fortnight, requests_per_unit: 1}\n  - {keys: b}\n")
	twice := filepath.Dir(path("twice/a.yaml", shop))
	path("twice/b.yaml", "domain: shop\ndescriptors:\n  - {key: b, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	for name, test := range map[string]struct {
		stdin          string
		args           []string
		code           int
		stdout, stderr []string
	}{
		"good": {"", []string{good}, exitGood, []string{good + ": good: 1 domain, 1 limit\n"}, nil},
		"example": {"", []string{"../../examples/proxies/envoy/rules"}, exitGood,
			[]string{": good: 1 domain, "}, nil},
		"stdin": {shop, []string{"-"}, exitGood, []string{"<stdin>: good: 1 domain, 1 limit\n"}, nil},
		"mistakes": {"", []string{wrong, good}, exitBad, []string{good + ": good"},
			[]string{wrong + ":4: ", wrong + ":5: "}},
		"directory": {"", []string{twice}, exitBad, nil, []string{filepath.Join(twice, "b.yaml") + ":1: "}},
		"merged": {"", []string{twice, "--envoy-merge-domains"}, exitGood,
			[]string{"good: 1 domain, 2 limits"}, nil},
		"JSON": {"", []string{good, "--json"}, exitGood,
			[]string{`"envoy": {`, `"domains": 1`, `"limits": 1`}, nil},
		"JSON of mistakes": {"", []string{wrong, "--json"}, exitBad, []string{`"line": 4`, `"line": 5`}, nil},
		"no file": {"", []string{"none.yaml"}, exitBad, nil,
			[]string{"stint: none.yaml: no such file or directory\n"}},
		"policies": {small, []string{"-"}, exitBad, nil, []string{"<stdin>:1: "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, test.stdin, append([]string{"config", "check", "--envoy"}, test.args...)...)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			for _, want := range test.stdout {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("output %q, want %q", got.stdout, want)
				}
			}
			for _, want := range test.stderr {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("errors %q, want %q", got.stderr, want)
				}
			}
		})
	}
}
