package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestUsage checks command lines that are wrong. The output begins with the usage of the command,
// or the list of commands, and ends with the mistake.
func TestUsage(t *testing.T) {
	request := []string{"config", "explain", example, "--request"}
	with := func(flags ...string) []string {
		return append([]string{"config", "explain", example, "--request", "/"}, flags...)
	}
	tests := []struct {
		args  []string
		usage string // beginning of the first line
		want  string // the last line of the output
	}{
		{nil, "Usage: stint <command>", `expected one of "serve", "gateway", "demo", "config", "simulate", ...`},
		{[]string{"confg"}, "Usage: stint <command>", `unexpected argument confg, did you mean "config"?`},
		{[]string{"config", "check"}, "Usage: stint config check <path> ...", `expected "<path> ..."`},
		{[]string{"config", "check", example, "--jsno"}, "Usage: stint config check <path> ...",
			`unknown flag --jsno, did you mean "--json"?`},
		{[]string{"config", "check", "-", example, "-"}, "Usage: stint config check <path> ...",
			"config check: standard input (-) is given 2 times, but can be read only once"},
		{[]string{"simulate-generate", "--span=90s"}, "Usage: stint simulate-generate",
			"simulate-generate: --span: 1m30s; want whole minutes"},
		{[]string{"why", "user:42", "--at", "noon"}, "Usage: stint why",
			`why: --at: invalid time "noon"; want one such as 14:03, 14:03:10 or 2026-11-20T14:03`},
		{append(request, "GET /a HTTP/1.1"), "Usage: stint config explain", `--request: "GET /a HTTP/1.1" has 3 words; want a method and a path, such as 'GET /search'`},
		{append(request, "GET /%zz"), "Usage: stint config explain", `--request: "/%zz" is neither a path nor a URL; want one such as /search or https://example.com/search`},
		{append(request, "get /a"), "Usage: stint config explain", `--request: methods are case-sensitive: "get" is not GET; want 'GET /a'`},
		{with("--header", "X-API-Key"), "Usage: stint config explain", `--header: no colon in "X-API-Key"; want a header field such as 'X-API-Key: k1'`},
		{with("--claim", "user"), "Usage: stint config explain", `--claim: invalid claim "user"; want a name, an equals sign and a value, such as plan=pro`},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := execute(t, "", test.args...)
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			if got.code != exitUsage || got.stdout != "" || !strings.HasPrefix(lines[0], test.usage) ||
				lines[len(lines)-1] != "stint: "+test.want {
				t.Errorf("exit code %d, output %q, errors:\n%s\nwant 2, none, %q … %q", got.code, got.stdout, got.stderr, test.usage, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":         {"--help"},
		"help_check.txt":   {"config", "check", "--help"},
		"help_explain.txt": {"config", "explain", "-h"},
		"help_demo.txt":    {"demo", "--help"},
		"help_doctor.txt":  {"doctor", "--help"},
		"help_gateway.txt": {"gateway", "--help"},
		"help_inspect.txt": {"inspect", "--help"},
		"help_limits.txt":  {"limits", "set", "--help"},
		"help_schema.txt":  {"config", "schema", "--help"},
		"help_serve.txt":   {"serve", "--help"},
		"help_tail.txt":    {"tail", "--help"},
		"help_take.txt":    {"take", "--help"},
		"help_version.txt": {"version", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", args...)
			if got.code != exitGood || got.stderr != "" {
				t.Errorf("exit code %d, errors %q; want 0 and none", got.code, got.stderr)
			}
			testkit.Golden(t, *update, name, got.stdout)
		})
	}
}

// TestCustomary checks that command lines that are customary in other programs work.
func TestCustomary(t *testing.T) {
	for _, same := range [][2][]string{
		{{"help"}, {"--help"}},
		{{"help", "config", "check"}, {"config", "check", "--help"}},
		{{"--version"}, {"version"}},
		{{"--version", "--json"}, {"version", "--json"}},
	} {
		got, want := execute(t, "", same[0]...), execute(t, "", same[1]...)
		if got != want || want.code != exitGood {
			t.Errorf("%q: %+v, want what %q does: %+v", same[0], got, same[1], want)
		}
	}
}

// TestStandardOutputFails checks that write errors are reported, except if the reader has closed
// the pipe.
func TestStandardOutputFails(t *testing.T) {
	good := testkit.TempFile(t, "small.yaml", small)
	tests := []struct {
		err    error
		args   []string
		code   int
		stderr string
	}{
		{syscall.EPIPE, []string{"config", "schema"}, exitGood, ""},
		{syscall.EPIPE, []string{"config", "check", "--json", example, "no.yaml"}, exitBad, ""},
		{syscall.ENOSPC, []string{"config", "schema"}, exitBad, "stint: standard output: write: disk full\n"},
		{syscall.ENOSPC, []string{"config", "check", good}, exitBad, "stint: standard output: write: disk full\n"},
	}
	for _, test := range tests {
		var stderr strings.Builder
		s := &system{Stdout: broken{test.err}, Stderr: &stderr}
		code := s.report(run(s, test.args))
		got := strings.ReplaceAll(stderr.String(), syscall.ENOSPC.Error(), "disk full")
		if code != test.code || got != test.stderr {
			t.Errorf("%v, %v: exit code %d, errors %q; want %d, %q", test.args, test.err, code, got, test.code, test.stderr)
		}
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", b.err) }

func TestStandardInputFails(t *testing.T) {
	s := &system{Stdin: iotest.ErrReader(errors.New("unplugged"))}
	got := executeOn(s, "config", "explain", "-", "--request", "/")
	if want := (result{stderr: "stint: <stdin>: unplugged\n", code: exitBad}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
