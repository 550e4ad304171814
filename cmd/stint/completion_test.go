package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// completion checks the completions of real shells.
func completion(t *testing.T, binary string) {
	path := os.Getenv("PATH")
	t.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+path)
	typist := testkit.Must(filepath.Abs("testdata/complete.zsh"))(t)
	home := t.TempDir() // a home directory without settings
	t.Setenv("HOME", home)
	if err := os.Symlink(binary, filepath.Join(home, "stint")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"old.yaml", "other.log"} {
		testkit.WriteFile(t, name, "")
	}
	tests := []struct{ line, want string }{
		{"stint ", "serve gateway demo config simulate take peek inspect reset ban unban bans raise limits top tail why doctor completion version"},
		{"stint ba", "ban bans"},
		{"stint --", "--help"},
		{"stint config check o", "FILES"},
		{"stint simulate --config old.yaml o", "FILES"},
		{"stint tail --reason ", "limit ban unavailable shadow"},
		{"stint tail --reason=sh", "shadow"},
		{"stint serve --envoy-headers=u", "upstream"},
		{"stint serve --config ", "FILES"},
		{"stint take user:42 --store ", ""},
		{"stint inspect user:42 --pol", "--policy"},
	}
	for shell, complete := range map[string]func(t *testing.T, script, line string) string{
		"bash": bashOffers,
		"zsh":  func(t *testing.T, script, line string) string { return zshOffers(t, typist, script, line) },
		"fish": fishOffers,
	} {
		t.Run(shell, func(t *testing.T) {
			script := testkit.TempFile(t, "stint."+shell, execute(t, "", "completion", shell).stdout)
			for _, test := range tests {
				got := strings.Fields(complete(t, script, test.line))
				files := "old.yaml other.log"
				if shell == "bash" {
					files = "" // bash completes file names itself if there are no completions
				}
				want := strings.Fields(strings.ReplaceAll(test.want, "FILES", files))
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", test.line, got, want)
				}
			}
			t.Setenv("PATH", path)
			if got := complete(t, script, "~/stint tak"); strings.TrimSpace(got) != "take" {
				t.Errorf("a program that is not in PATH: got %q, want take", got)
			}
		})
	}
}

// shell runs the shell with the given name, and returns its output.
func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a shell: make test runs it")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s not found: apt-get install %s, or run make setup", name, name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// bashOffers returns the completions of bash. It passes each = as a separate word, as bash does.
func bashOffers(t *testing.T, script, line string) string {
	t.Helper()
	apart := strings.ReplaceAll(line, "=", " = ")
	if strings.HasSuffix(line, "=") {
		apart = strings.TrimSuffix(apart, " ")
	}
	words := strings.Split(apart, " ")
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	ask := fmt.Sprintf("source %q; COMP_WORDS=(%s) COMP_CWORD=%d; _stint %s; echo \"${COMPREPLY[*]}\"",
		script, strings.Join(quoted, " "), len(words)-1, quoted[0])
	return shell(t, "bash", "--norc", "-c", ask)
}

// zshOffers types line in a terminal, because zsh completes only there, and returns the
// completions.
func zshOffers(t *testing.T, typist, script, line string) string {
	t.Helper()
	var offers []string
	for _, match := range regexp.MustCompile("<(.*)>").FindAllStringSubmatch(
		shell(t, "zsh", "-f", typist, script, line), -1) {
		offers = append(offers, match[1])
	}
	return strings.Join(offers, " ")
}

// fishOffers returns the completions of fish, without the flags and descriptions that fish adds.
func fishOffers(t *testing.T, script, line string) string {
	t.Helper()
	var offers []string
	for offer := range strings.Lines(
		shell(t, "fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line)) {
		offer, _, _ = strings.Cut(strings.TrimSuffix(offer, "\n"), "\t")
		if _, value, ok := strings.Cut(offer, "="); ok {
			offer = value
		}
		offers = append(offers, offer)
	}
	return strings.Join(offers, " ")
}

func TestCompletionOfNegatedFlag(t *testing.T) {
	want := "--no-envoy-metrics\tNot: Add metrics with the names of envoyproxy/ratelimit, five for each limit\n"
	if got := execute(t, "", "__complete", "serve", "--no-envoy").stdout; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGuide checks that docs/cli.md describes every command.
func TestGuide(t *testing.T) {
	guide := testkit.ReadFile(t, "../../docs/cli.md")
	for _, line := range strings.Split(execute(t, "", "--help").stdout, "\n") {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), " ")
		if !ok || !strings.HasPrefix(line, "  ") || name == "" || name[0] == '-' || name == "version" {
			continue
		}
		if !strings.Contains(guide, "`"+name) && !strings.Contains(guide, "stint "+name) {
			t.Errorf("%s is not in docs/cli.md", name)
		}
	}
}
