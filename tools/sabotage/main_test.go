package main

import (
	"bytes"
	"flag"
	"io"
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

// one returns a target of one file, or of a pattern, of the module.
func one(name, file string) target {
	return target{name: name, files: []string{file}, stages: []stage{{pkg: "."}}}
}

var add, sub, lua = one("add", "add.go"), one("sub", "sub.go"), one("lua", "*.lua")

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

// wantLines runs the program and fails the test if its output lacks one of the lines.
func wantLines(t *testing.T, dir string, args []string, targets []target, lines ...string) (output string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"-C", dir}, args...), &out, targets); err != nil {
		t.Fatal(err)
	}
	for _, want := range lines {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no line %q in:\n%s", want, &out)
		}
	}
	return out.String()
}

func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
}

func TestCaughtAndSurvived(t *testing.T) {
	skipIfShort(t)
	dir := write(t, module)
	wantLines(t, dir, []string{"-n", "50", "-v"}, []target{add, sub, lua},
		"caught   add.go:3: + → - | func add(a, b int) int { return a + b } | Test",
		"survived sub.go:3: - → + | func sub(a, b int) int { return a - b }",
		"caught   text.lua:1: < → <= | return a < b | Test",
		"| add | 2 | 2 | 2 | 0 | 0 | 100% |",
		"| sub | 2 | 2 | 0 | 0 | 2 | 0% |",
		"| lua | 3 | 3 | 3 | 0 | 0 | 100% |",
		"| all | 7 | 7 | 5 | 0 | 2 | 71% |")
	for name, want := range module {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
}

func TestMutantsThatDoNotCompileDoNotCount(t *testing.T) {
	skipIfShort(t)
	dir := write(t, map[string]string{
		"go.mod":    module["go.mod"],
		"join.go":   "package m\n\nfunc join(a, b string) string { return a + b }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { join(\"\", \"\") }\n",
	})
	wantLines(t, dir, nil, []target{one("join", "join.go")}, "| join | 2 | 1 | 0 | 0 | 1 | 0% |")
}

// A test that fails every other time catches no mutant, and those after it are run.
func TestATestThatFailsNowAndThenCatchesNothing(t *testing.T) {
	skipIfShort(t)
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
	got := wantLines(t, write(t, files), []string{"-v", "-parallel", "1"}, []target{add, sub},
		"| add | 2 | 2 | 2 | 0 | 0 | 100% |", "| sub | 2 | 2 | 0 | 0 | 2 | 0% |")
	if strings.Contains(got, "TestFlaky") {
		t.Errorf("got:\n%s", got)
	}
}

func TestTestsThatFailWithoutAMutantAreAnError(t *testing.T) {
	skipIfShort(t)
	files := maps.Clone(module)
	files["add.go"] = "package m\n\nfunc add(a, b int) int { return a - b }\n"
	err := run(t.Context(), []string{"-C", write(t, files)}, io.Discard, []target{add})
	if err == nil || !strings.Contains(err.Error(), "without a mutant") {
		t.Errorf("got %v", err)
	}
}

func TestTheSeedChoosesTheMutants(t *testing.T) {
	dir := write(t, module)
	all := []target{{name: "m", files: []string{"*.go", "*.lua"}, except: []string{"text.go"}}}
	list := func(seed string, flags ...string) string {
		return wantLines(t, dir, append([]string{"-list", "-seed", seed}, flags...), all)
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
	wantLines(t, write(t, module), []string{"-budget", "1ns"}, []target{add},
		"| add | 2 | 0 | 0 | 0 | 0 | – |", "The budget of 1ns is used up.")
}

func TestArguments(t *testing.T) {
	if err := run(t.Context(), []string{"-only", "nothing"}, io.Discard, targets); err == nil ||
		!strings.Contains(err.Error(), `unknown package "nothing"`) {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), []string{"-h"}, io.Discard, targets); err != flag.ErrHelp {
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
