package envoyrls_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestMistakes holds what is said to people whose configuration is wrong: all of it, each with its
// line.
func TestMistakes(t *testing.T) {
	tests := []struct {
		name, text, want string // want has a line for each mistake
	}{
		{"null", "~", "a.yaml:1: domain: config file cannot have empty domain"},
		{"not YAML", "domain: [a", "a.yaml:1: error loading config file: not YAML: did not find expected ',' or ']': in brackets, a text with {, }, [, ] or a comma needs quotes"},
		{"two documents", "domain: a\n---\ndomain: b\n", "a.yaml:2: error loading config file: a second document; want one in a file"},
		{"unknown key", "domain: a\ndescriptors:\n  - key: k\n    ratelimit: {unit: day}\n",
			"a.yaml:4: descriptors[0]: config error, unknown key 'ratelimit'; want key, value, rate_limit, descriptors, shadow_mode, " +
				"quota_mode, detailed_metric, value_to_metric, share_threshold, metadata"},
		{"key in the wrong place", "domain: a\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n      shadow_mode: true\n",
			"a.yaml:6: descriptors[0].rate_limit: config error, unknown key 'shadow_mode'; it belongs to a descriptor"},
		{"key twice", "domain: a\ndomain: b\n", "a.yaml:2: config error, duplicate key 'domain'"},
		{"empty key", "domain: a\ndescriptors:\n  - value: v\n", "a.yaml:3: descriptors[0]: descriptor has empty key"},
		{"duplicate key", "domain: a\ndescriptors:\n  - {key: k, value: v}\n  - {key: k, value: v}\n",
			"a.yaml:4: descriptors[1]: duplicate descriptor composite key 'a.k_v'"},
		{"bad unit", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: moon, requests_per_unit: 1}\n",
			"a.yaml:4: descriptors[0].rate_limit.unit: invalid rate limit unit 'moon'; want second, minute, hour, day, week, month or year"},
		{"unlimited with a unit", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unlimited: true, unit: day}\n",
			"a.yaml:4: descriptors[0].rate_limit.unit: should not specify rate limit unit when unlimited"},
		{"too many", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 4294967296}\n",
			"a.yaml:4: descriptors[0].rate_limit.requests_per_unit: '4294967296' is not a whole number from 0 to 4294967295"},
		{"multiplier too large", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, unit_multiplier: 2}\n",
			"a.yaml:4: descriptors[0].rate_limit: a window of 2 times a year; want at most 366 days"},
		{"true in quotes", "domain: a\ndescriptors:\n  - key: k\n    shadow_mode: \"true\"\n",
			"a.yaml:4: descriptors[0].shadow_mode: 'true' is neither true nor false; in quotes it is a string"},
		{"replaces nothing", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, replaces: [{name: }]}\n",
			"a.yaml:4: descriptors[0].rate_limit.replaces[0]: should not have an empty replaces entry"},
		{"replaces itself", "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, name: n, replaces: [{name: n}]}\n",
			"a.yaml:4: descriptors[0].rate_limit.replaces[0]: replaces should not contain name of same descriptor"},
		{"shared without a wildcard", "domain: a\ndescriptors:\n  - {key: k, value: v, share_threshold: true}\n",
			"a.yaml:3: descriptors[0].share_threshold: share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'"},
		{"metadata", "domain: a\ndescriptors:\n  - {key: k, metadata: 7}\n", "a.yaml:3: descriptors[0].metadata: error parsing metadata: want a map"},
		{"a name that is a list", "domain: [a]\n",
			"a.yaml:1: domain: want a string" + "\n" +
				"a.yaml:1: domain: config file cannot have empty domain"},
		{"an alias of itself", "domain: a\ndescriptors: &x\n  - key: k\n    descriptors: *x\n",
			"a.yaml:4: " + strings.Repeat("descriptors[0].", 64) + "descriptors: descriptors are nested too deeply; want at most 64 levels"},
		{"everything at once", "descriptors:\n  - value: v\n    rate_limit: {unit: moon}\n  - key: k\n    key2: x\n",
			"a.yaml:1: domain: config file cannot have empty domain" + "\n" +
				"a.yaml:2: descriptors[0]: descriptor has empty key" + "\n" +
				"a.yaml:3: descriptors[0].rate_limit.unit: invalid rate limit unit 'moon'; want second, minute, hour, day, week, month or year" + "\n" +
				"a.yaml:5: descriptors[1]: config error, unknown key 'key2'; want key, value, rate_limit, descriptors, shadow_mode, " +
				"quota_mode, detailed_metric, value_to_metric, share_threshold, metadata"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := envoyrls.Parse("a.yaml", []byte(test.text))
			if wrong, ok := errors.AsType[*config.Error](err); !ok || wrong.Error() != test.want {
				t.Errorf("got %T\n%v\nwant a *config.Error\n%s", err, err, test.want)
			}
		})
	}
}

// TestBombs: what is small in a file and large once its aliases are followed is refused, soon.
func TestBombs(t *testing.T) {
	bomb := "domain: a\ndescriptors:\n- {key: k, metadata: &m0 {a: 1}}\n"
	for i := range 40 {
		bomb += fmt.Sprintf("- {key: k%d, metadata: &m%d {a: *m%d, b: *m%d}}\n", i, i+1, i, i)
	}
	_, err := envoyrls.Parse("a.yaml", []byte(bomb))
	if err == nil || !strings.Contains(err.Error(), "oversized") {
		t.Errorf("got %v; want it to be oversized", err)
	}
}

// TestForms: what the documents and people's files do with YAML is understood.
func TestForms(t *testing.T) {
	c := parse(t, `
domain: forms
descriptors:
  - key: limits
    rate_limit: &base
      unit: MINUTE
      requests_per_unit: 0x10
  - key: merged
    rate_limit:
      <<: *base
      requests_per_unit: +7
  - {key: several, rate_limit: {<<: [*base, {unit: day, name: n}]}}
  - key: alias
    rate_limit: *base
  - key: 50
    value: 80
    shadow_mode: yes
    rate_limit: *base
  - key: flag
    value: true
    quota_mode: On
    detailed_metric: true
    value_to_metric: false
    rate_limit: {unlimited: true, requests_per_unit: 9}
  - key: wide
    rate_limit: {unit: hour, unit_multiplier: 6, requests_per_unit: 1_000}
  - key: none
    value:
    descriptors:
---
`)
	want := `forms.limits: unit=MINUTE requests_per_unit=16, shadow_mode: false, quota_mode: false
forms.merged: unit=MINUTE requests_per_unit=7, shadow_mode: false, quota_mode: false
forms.several: unit=MINUTE requests_per_unit=16, shadow_mode: false, quota_mode: false
forms.alias: unit=MINUTE requests_per_unit=16, shadow_mode: false, quota_mode: false
forms.50_80: unit=MINUTE requests_per_unit=16, shadow_mode: true, quota_mode: false
forms.flag_true: unit=UNKNOWN requests_per_unit=9, shadow_mode: false, quota_mode: true
forms.wide: unit=HOUR requests_per_unit=1000, unit_multiplier: 6, shadow_mode: false, quota_mode: false
`
	if got := c.Dump(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if domains, limits := c.Size(); domains != 1 || limits != 7 {
		t.Errorf("got %d domains and %d limits, want 1 and 7", domains, limits)
	}
}

// TestF34Dump: a dump has one line for each limit, whatever the keys are.
func TestF34Dump(t *testing.T) {
	c := parse(t, "domain: a\ndescriptors:\n  - {key: \"x\\ny: unit=\\e[31m\", rate_limit: {unit: day, requests_per_unit: 1}}\n")
	if got, want := c.Dump(), `a.x\ny: unit=\x1b[31m: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func write(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		testkit.WriteFile(t, filepath.Join(directory, name), text)
	}
}

// TestF14Load: which files of a directory are read, and that mistakes in any of them are told
// together.
func TestF14Load(t *testing.T) {
	const limit = "\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n"
	directory := t.TempDir()
	write(t, directory, map[string]string{
		"a.yaml": "domain: a" + limit, "b.yml": "domain: b" + limit, "noext": "domain: c" + limit,
		"sub/d.YAML": "domain: d" + limit, ".hidden.yaml": "[", "a.yaml~": "[", "#a.yaml#": "[", ".a.yaml.swp": "[", "4913": "", "notes.md": "[",
		".git/e.yaml": "[", "a.yaml.bak": "[",
		"..2026/f.yaml": "domain: f" + limit,
	})
	if err := os.Symlink("..2026/f.yaml", filepath.Join(directory, "f.yaml")); err != nil { // as Kubernetes does
		t.Fatal(err)
	}
	c := testkit.Must(envoyrls.Load(directory, false))(t)
	if domains, _ := c.Size(); domains != 5 {
		t.Errorf("got %d domains, want 5", domains)
	}
	opened, err := envoyrls.Open(directory)
	if err != nil || len(opened) != 5 {
		t.Errorf("got %d files, %v; want those that were read", len(opened), err)
	}

	write(t, directory, map[string]string{"b.yml": "domain: a", "noext": "domain: ["})
	_, err = envoyrls.Load(directory, false)
	var wrong *config.Error
	if !errors.As(err, &wrong) || len(wrong.Mistakes) != 2 {
		t.Fatalf("got %v; want two mistakes", err)
	}
	if got, want := wrong.Mistakes[0].Message, "duplicate domain 'a' in config file; first set at "+filepath.Join(directory, "a.yaml")+":1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	if _, err := envoyrls.Load(t.TempDir(), false); !errors.As(err, &wrong) {
		t.Errorf("an empty directory: got %v; want a *config.Error", err)
	}
	if _, err := envoyrls.Load(filepath.Join(directory, "missing"), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v; want %v", err, os.ErrNotExist)
	}
	write(t, directory, map[string]string{"large.yaml": strings.Repeat("\x00", 17<<20)})
	if _, err := envoyrls.Load(filepath.Join(directory, "large.yaml"), false); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "oversized") {
		t.Errorf("an oversized file: got %v", err)
	}
}

const lookupRules = `
domain: "a:b"
descriptors:
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: "odd=,%"
    rate_limit: {unit: second, requests_per_unit: 3}
    descriptors:
      - key: inner
        value: "x,y"
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: path
    value: "/files/*"
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: free
    rate_limit: {unlimited: true}
`

func TestLimitsOf(t *testing.T) {
	for _, test := range []struct{ subject, rule, sliding, fixed string }{
		{"envoy:a%3ab:plain=v", "a:b.plain", "10/1m", "10/1m fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v", "a:b.odd=,%", "3/1s", "3/1s fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v,inner=x%2cy", "a:b.odd=,%.inner_x,y", "7/1h", "7/1h fixed"},
		{"envoy:a%3ab:path=/files/*", "a:b.path_/files/*", "5/1d", "5/1d fixed"},
		// What no counter is called.
		{"envoy:a%3ab:path=/files/1", "", "", ""},
		{"envoy:a%3ab:plain=v,more=w", "", "", ""},
		{"envoy:a%3ab:free=v", "", "", ""},
		{"envoy:a%3ab:plain=%zz", "", "", ""},
		{"envoy#0123", "", "", ""},
		{"user:42", "", "", ""},
	} {
		for window, want := range map[envoyrls.Window]string{envoyrls.Sliding: test.sliding, envoyrls.Fixed: test.fixed} {
			service := newService(t, nil, parse(t, lookupRules), envoyrls.Options{Window: window})
			rule, limits := service.LimitsOf(test.subject)
			got := ""
			if len(limits) == 1 {
				got = limits[0].String()
			}
			if rule != test.rule || got != want || len(limits) > 1 {
				t.Errorf("%s: got %q, %v; want %q, %q", test.subject, rule, limits, test.rule, want)
			}
		}
	}
}

// FuzzParse: any text is a configuration or a mistake, never a panic, and a configuration answers
// any request.
func FuzzParse(f *testing.F) {
	for _, s := range scenarios {
		f.Add([]byte(s.config))
	}
	f.Add([]byte("domain: a\ndescriptors: &x\n  - key: k\n    descriptors: *x\n"))
	f.Add([]byte("domain: a\ndescriptors:\n  - <<: [*x, {key: k}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := envoyrls.Parse("fuzz.yaml", text)
		var wrong *config.Error
		switch {
		case err == nil:
			if _, limits := c.Size(); strings.Count(c.Dump(), "\n") != limits {
				t.Errorf("the dump does not have %d lines: %s", limits, c.Dump())
			}
		case !errors.As(err, &wrong):
			t.Errorf("got %v; want a *config.Error", err)
		case strings.Contains(wrong.Mistakes[0].Message, "\n"):
			t.Errorf("a mistake in several lines: %q", wrong.Mistakes[0].Message)
		}
	})
}

// TestMergeDomains: several files are one domain if that is wanted, and no descriptor is in two of
// them.
func TestMergeDomains(t *testing.T) {
	file := func(name, domain, key string) reload.File {
		return reload.File{Name: name, Text: fmt.Appendf(nil,
			"domain: %s\ndescriptors:\n  - key: %s\n    rate_limit: {unit: day, requests_per_unit: 1}\n", domain, key)}
	}
	files := []reload.File{file("1.yaml", "a", "x"), file("2.yaml", "b", "x"), file("3.yaml", "a", "y")}
	if _, err := envoyrls.Read(files, false); err == nil || strings.Count(err.Error(), "duplicate domain 'a'") != 1 {
		t.Errorf("unless told: got %v; want a mistake", err)
	}
	c, err := envoyrls.Read(files, true)
	if err != nil {
		t.Fatal(err)
	}
	if domains, limits := c.Size(); domains != 2 || limits != 3 {
		t.Errorf("got %d domains with %d limits, want 2 with 3", domains, limits)
	}
	_, err = envoyrls.Read(append(files, file("5.yaml", "a", "x")), true)
	if want := "5.yaml:3: descriptors[0]: duplicate descriptor composite key 'a.x'; first set at 1.yaml:3"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
