package main

import (
	"slices"
	"strings"
	"testing"
)

// mutants returns the changed lines of a source, as "what: the line after it".
func mutants(t *testing.T, file, source string) []string {
	t.Helper()
	m := &mutator{file: file, source: []byte(source)}
	if strings.HasSuffix(file, ".lua") {
		m.lua()
	} else if err := m.golang(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.found {
		lines := strings.Split(string(f.apply(m.source)), "\n")
		got = append(got, f.what+": "+strings.TrimSpace(lines[f.line-1]))
	}
	return got
}

func TestMutations(t *testing.T) {
	for _, c := range []struct {
		name, file, source string
		want               []string
	}{
		{"comparison", "f.go", "package p\nvar a = b < c",
			[]string{"< → <=: var a = b <= c", "< → >=: var a = b >= c"}},
		{"arithmetic", "f.go", "package p\nvar a = b + c", []string{"+ → -: var a = b - c"}},
		{"logic", "f.go", "package p\nvar a = !b && c",
			[]string{"&& → ||: var a = !b || c", "removed !: var a = b && c"}},
		{"numbers and truth", "f.go", "package p\nvar a, b = 0x10, true",
			[]string{"0x10 → 17: var a, b = 17, true", "true → false: var a, b = 0x10, false"}},
		{"if", "f.go", "package p\nfunc f() {\nif a() {\n}\n}",
			[]string{"negated the condition: if !(a()) {", "skipped the if: if (a()) && false {"}},
		{"a condition that has an opposite is negated once", "f.go", "package p\nfunc f() {\nif a == b {\n}\n}",
			[]string{"skipped the if: if (a == b) && false {", "== → !=: if a != b {"}},
		{"statements", "f.go", "package p\nfunc f() {\na = b\ng()\nx := h()\ndefer k()\n}",
			[]string{"dropped: a = b: ", "dropped: g(): ", "dropped: defer k(): "}},
		{"steps", "f.go", "package p\nfunc f() {\na += b\na++\n}",
			[]string{"+= → -=: a -= b", "dropped: a += b: ", "++ → --: a--", "dropped: a++: "}},
		{"loops", "f.go", "package p\nfunc f() {\nfor {\ncontinue\n}\n}", []string{"dropped: continue: "}},
		{"returns", "f.go", "package p\nfunc f() (a, b int, err error) {\nreturn g()\n}",
			[]string{"returned zero values: return *new(int), *new(int), *new(error)"}},
		{"a function in a function has its own results", "f.go", "package p\nfunc f() {\ng(func() string {\nreturn x\n})\n}",
			[]string{"dropped: g(func() string {…: ", "returned zero values: return *new(string)"}},
		{"zero values are returned already", "f.go", "package p\nfunc f() (*T, T, string) {\nreturn nil, T{}, \"\"\n}", nil},
		{"sizes and messages of bugs", "f.go", "package p\nvar a, b, c = make([]int, 0, 4), [2]int{}, panic(1 + 1)", nil},
		{"text and comments", "f.go", "package p\n// a < b\nvar a = \"a < b\"", nil},

		{"Lua: comparison", "f.lua", "local a = b <= c",
			[]string{"<= → <: local a = b < c", "<= → >: local a = b > c"}},
		{"Lua: logic", "f.lua", "local a = not b and c",
			[]string{"removed not: local a =  b and c", "and → or: local a = not b or c"}},
		{"Lua: a sign is no operator", "f.lua", "local a = -b - c", []string{"- → +: local a = -b + c"}},
		{"Lua: functions", "f.lua", "local max = math.max\nlocal a = max(b, c)",
			[]string{"max → min: local a = min(b, c)"}},
		{"Lua: numbers", "f.lua", "local a, b = 0.5, KEYS[1]", []string{"1 → 2: local a, b = 0.5, KEYS[2]"}},
		{"Lua: if", "f.lua", "if a then b() end",
			[]string{"negated the condition: if not (a) then b() end",
				"skipped the if: if (a) and false then b() end"}},
		{"Lua: statements", "f.lua", "do\n  a.b = c -- d\n  f(a)\n  return a\nend",
			[]string{"dropped: a.b = c: -- d", "dropped: f(a): ", "dropped: return a: "}},
		{"Lua: parts of statements", "f.lua", "local a = {\n  b = c,\n  d = e\n}\na = b and\n  f(c)\nf(a,\n  g(b))",
			[]string{"and → or: a = b or"}},
		{"Lua: text and comments", "f.lua", "--[[ a < b\n]] local a = 'a < b' .. \"it's < \\\"\" .. [[a <\nb]] -- a < b", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mutants(t, c.file, c.source); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		ok     bool
		output string
		want   outcome
		by     string
	}{
		{"passed", true, "ok  	p	0.1s\n", survived, ""},
		{"failed", false, "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n", caught, "TestA"},
		{"panicked outside a test", false, "panic: no\n\ngoroutine 1\nFAIL	p	0.1s\n", caught, "panic: no"},
		{"timed out", false, "panic: test timed out after 1s\n", timedOut, "a timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, by := judge(c.ok, c.output); got != c.want || by != c.by {
				t.Errorf("got %v by %q, want %v by %q", got, by, c.want, c.by)
			}
		})
	}
}
