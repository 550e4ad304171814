//go:build unix

package doctest

import (
	"slices"
	"testing"
)

func TestParseBlocks(t *testing.T) {
	const text = "Text.\n\n<!-- given: var a int -->\n<!-- before:\nfirst\nsecond\n-->\n```sh\nrun\n```\n" +
		"- item\n\n  <!-- not run: takes minutes -->\n  ```go\n  a++\n  ```\n"
	blocks, err := parseBlocks(text)
	if err != nil || len(blocks) != 2 {
		t.Fatalf("got %+v, %v", blocks, err)
	}
	if b := blocks[0]; b.line != 8 || b.text != "run\n" || !slices.Equal(b.before, []string{"first\nsecond"}) {
		t.Errorf("got %+v", b)
	}
	if b := blocks[1]; b.text != "a++\n" || b.notRun != "takes minutes" ||
		!slices.Equal(b.given, []string{"var a int"}) {
		t.Errorf("got %+v", b)
	}
	for _, wrong := range []string{"```sh\nrun\n", "<!-- not run: takes minutes -->\nText.\n\n```sh\nrun\n```\n"} {
		if _, err := parseBlocks(wrong); err == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, wrong := range []block{
		{text: "no language\n"},
		{language: "sh", notRun: "?"},
		{language: "text", notRun: "takes minutes"},
		{language: "text", text: "$ stint version\n"},
		{language: "console", text: "output\n"},
		{language: "json", text: "{a: 1}"},
		{language: "yaml", text: "tier: []\n"},
		{language: "yaml", text: "policies:\n  - {name: a, limits: often}\n"},
		{language: "yaml", text: "kind: Deployment\npolicies:\n  - {name: a, limits: 1/1s}\n"},
		{language: "yaml", text: "domain: a\ndescriptors: [{kee: a}]\n"},
	} {
		if wrong.check(t) == nil {
			t.Errorf("no error for %+v", wrong)
		}
	}
}

func TestSteps(t *testing.T) {
	console := block{line: 10, language: "console", text: "$ a \\\n> b\nout\n\n$ cat <<END\n> $ x\n> END\n$ c\n"}
	sh := block{language: "sh", text: "a \\\n  b\n\ncat <<'END'\nx\nEND\nc\n"}
	for _, b := range []block{console, sh} {
		steps := b.steps()
		if len(steps) != 3 || steps[2].command != "c" || steps[2].shown {
			t.Errorf("got %+v", steps)
		}
	}
	if s := console.steps(); s[0].command != "a \\\nb" || s[0].want != "out\n\n" ||
		s[1].command != "cat <<END\n$ x\nEND" ||
		s[1].line != 15 {
		t.Errorf("got %+v", s)
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		name, want, got string
		varies, ok      bool
	}{
		{"equal", "a\nb\n", "a\nb\n", false, true},
		{"another line", "a\n", "a\nb\n", false, false},
		{"a line less", "a\nb\n", "a\n", false, false},
		{"any text", "a … c\n", "a b c\n", false, true},
		{"any lines", "a\n…\nc\n", "a\n1\n2\nc\n", false, true},
		{"no lines", "a\n  …\n", "a\n", false, true},
		{"a fraction", "1.5 s\n", "22.75 s\n", false, true},
		{"another address", "banned 203.0.113.9\n", "banned 198.51.100.7\n", false, false},
		{"another version", "stint v0.1.0\n", "stint v9.7.0\n", false, false},
		{"a whole number", "1 s\n", "2 s\n", false, false},
		{"a whole number that varies", "  1 s\n", " 22 s\n", true, true},
		{"another unit", "125µs, 3m20s\n", "1.5ms, 2h\n", true, true},
		{"a time", "2026-01-02T03:04:05Z\n", "2027-11-12T13:14:15.5Z\n", false, true},
		{"CRLF, and no newline at the end", "a\nb\n", "a\r\nb", false, true},
	}
	for _, test := range tests {
		s := step{want: test.want, numbersVary: test.varies}
		if got := s.matches(test.got, false); got != test.ok {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}
