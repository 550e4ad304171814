package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A module whose test notices a change of add and of the embedded Lua, and not of sub.
var module = map[string]string{
	"go.mod":   "module example.com/m\n\ngo 1.26.0\n",
	"add.go":   "package m\n\nfunc add(a, b int) int { return a + b }\n",
	"sub.go":   "package m\n\nfunc sub(a, b int) int { return a - b }\n",
	"text.go":  "package m\n\nimport _ \"embed\"\n\n//go:embed text.lua\nvar text string\n",
	"text.lua": "return a < b\n",
	"m_test.go": `package m

import "testing"

func Test(t *testing.T) {
	if add(2, 3) != 5 || text != "return a < b\n" {
		t.Fatal("changed")
	}
	sub(2, 3)
}
`,
}

var testStages = []stage{{pkg: "."}}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCaughtAndSurvived(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	dir := write(t, module)
	var out bytes.Buffer
	err := run(t.Context(), []string{"-C", dir, "-n", "50", "-v"}, &out, []target{
		{name: "add", files: []string{"add.go"}, stages: testStages},
		{name: "sub", files: []string{"sub.go"}, stages: testStages},
		{name: "lua", files: []string{"*.lua"}, stages: testStages},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"caught   add.go:3: + → - | func add(a, b int) int { return a + b } | Test\n",
		"survived sub.go:3: - → + | func sub(a, b int) int { return a - b }\n",
		"caught   text.lua:1: < → <= | return a < b | Test\n",
		"| add | 2 | 2 | 2 | 0 | 0 | 100% |\n",
		"| sub | 2 | 2 | 0 | 0 | 2 | 0% |\n",
		"| lua | 3 | 3 | 3 | 0 | 0 | 100% |\n",
		"| all | 7 | 7 | 5 | 0 | 2 | 71% |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, &out)
		}
	}
	for name, want := range module {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
}

func TestMutantsThatDoNotCompileDoNotCount(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	dir := write(t, map[string]string{
		"go.mod":    module["go.mod"],
		"join.go":   "package m\n\nfunc join(a, b string) string { return a + b }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { join(\"\", \"\") }\n",
	})
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-C", dir}, &out, []target{
		{name: "join", files: []string{"join.go"}, stages: testStages},
	}); err != nil {
		t.Fatal(err)
	}
	if want := "| join | 2 | 1 | 0 | 0 | 1 | 0% |\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no line %q in:\n%s", want, &out)
	}
}

// A test that fails every other time catches no mutant, and those after it are run.
func TestATestThatFailsNowAndThenCatchesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	files := maps.Clone(module)
	files["a_test.go"] = `package m

import (
	"os"
	"testing"
)

func TestFlaky(t *testing.T) {
	if os.Remove("flag") != nil {
		_ = os.WriteFile("flag", nil, 0o600)
		t.Fatal("the first time, the third, and so on")
	}
}
`
	var out bytes.Buffer
	err := run(t.Context(), []string{"-C", write(t, files), "-v", "-parallel", "1"}, &out, []target{
		{name: "add", files: []string{"add.go"}, stages: testStages},
		{name: "sub", files: []string{"sub.go"}, stages: testStages},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| add | 2 | 2 | 2 | 0 | 0 | 100% |\n", "| sub | 2 | 2 | 0 | 0 | 2 | 0% |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "TestFlaky") {
		t.Errorf("got:\n%s", &out)
	}
}

func TestTestsThatFailWithoutAMutantAreAnError(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	files := maps.Clone(module)
	files["add.go"] = "package m\n\nfunc add(a, b int) int { return a - b }\n"
	var out bytes.Buffer
	err := run(t.Context(), []string{"-C", write(t, files)}, &out, []target{
		{name: "add", files: []string{"add.go"}, stages: testStages},
	})
	if err == nil || !strings.Contains(err.Error(), "without a mutant") {
		t.Errorf("got %v", err)
	}
}

func TestTheSeedChoosesTheMutants(t *testing.T) {
	dir := write(t, module)
	list := func(seed string, flags ...string) string {
		var out bytes.Buffer
		if err := run(t.Context(), append([]string{"-C", dir, "-list", "-seed", seed}, flags...), &out, []target{
			{name: "m", files: []string{"*.go", "*.lua"}, except: []string{"text.go"}},
		}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first, again, other := list("1"), list("1"), list("2")
	if first != again {
		t.Errorf("the same seed: got %s, then %s", first, again)
	}
	if first == other {
		t.Errorf("two seeds: got the same order: %s", first)
	}
	sorted := func(s string) []string { return slices.Sorted(strings.Lines(s)) }
	if !slices.Equal(sorted(first), sorted(other)) {
		t.Errorf("two seeds: got other mutants: %s and %s", first, other)
	}
	want := "add.go:3: + → - | func add(a, b int) int { return a + b }\n"
	if got := list("1", "-match", `^add.go:\d+: \+`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(first, "_test.go") || !strings.Contains(first, "text.lua:1: < → <=") {
		t.Errorf("got %s", first)
	}
}

func TestTheBudgetEnds(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-C", write(t, module), "-budget", "1ns"}, &out, []target{
		{name: "add", files: []string{"add.go"}, stages: testStages},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| add | 2 | 0 | 0 | 0 | 0 | – |\n", "The budget of 1ns is used up.\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, &out)
		}
	}
}

func TestArguments(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-only", "nothing"}, &out, targets); err == nil ||
		!strings.Contains(err.Error(), `unknown package "nothing"`) {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), []string{"-h"}, &out, targets); err != flag.ErrHelp {
		t.Errorf("got %v", err)
	}
}

// Every target has files, and every pattern of tests matches at least one.
func TestTargets(t *testing.T) {
	for _, c := range targets {
		all, err := c.mutations("../..", 1)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(all) < 50 {
			t.Errorf("%s: only %d mutations", c.name, len(all))
		}
		for _, s := range c.stages {
			if tests, err := filepath.Glob(filepath.Join("../..", s.pkg, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s: no tests in %s (%v)", c.name, s.pkg, err)
			}
		}
	}
}
