package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCompletionBash has a real bash complete.
func TestCompletionBash(t *testing.T) {
	script := execute(t, "", "completion", "bash").stdout
	for _, test := range []struct {
		line string // the last word is what is completed
		want string
	}{
		{"stint ", "serve gateway demo config simulate take peek inspect reset ban unban bans top tail doctor completion version --help"},
		{"stint ba", "ban bans"},
		{"stint config ", "check explain schema --help"},
		{"stint config check --j", "--json"},
		{"stint tail --reason ", "limit ban unavailable shadow"},
		{"stint tail --reason = sh", "shadow"},
		{"stint tail --json --reason li", "limit"},
		{"stint top --by a", "apikey"},
		{"stint serve --log-format ", "text json"},
		{"stint gateway --no-a", "--no-access-log"},
		{"stint serve --config ", ""}, // files
		{"stint completion ", "bash zsh fish --help"},
		{"stint inspect user:42 --pol", "--policy"},
	} {
		words := strings.Split(test.line, " ")
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = fmt.Sprintf("%q", w)
		}
		ask := fmt.Sprintf("%s\nCOMP_WORDS=(%s) COMP_CWORD=%d; _stint; echo \"${COMPREPLY[*]}\"", script, strings.Join(quoted, " "), len(words)-1)
		out, err := exec.Command("bash", "--norc", "-c", ask).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != test.want {
			t.Errorf("%s: got %q, %v; want %q", test.line, got, err, test.want)
		}
	}
}

// TestCompletionScripts are read by their shells, where those are installed, and name every command.
func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string][]string{
		"bash": {"complete -o default -F _stint stint", `" config check"`},
		"zsh":  {"#compdef stint", "'inspect:Show what a subject has used of its limits, and when it comes back'", `(" tail --reason") compadd -- limit ban unavailable shadow; return ;;`, `(" serve --config") _files; return ;;`},
		"fish": {`complete -c stint -n '__stint_at " tail"' -l reason -x -a 'limit ban unavailable shadow'`, `complete -c stint -n '__stint_at " serve"' -l config -r -F`, `-l yes -s y -f`},
	} {
		got := execute(t, "", "completion", shell)
		for _, text := range want {
			if !strings.Contains(got.stdout, text) {
				t.Errorf("%s: %q is not in\n%s", shell, text, got.stdout)
			}
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		c := exec.Command(path, "-n") // reads, and runs nothing
		c.Stdin = strings.NewReader(got.stdout)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	if got := execute(t, "", "completion", "tcsh"); got.code != exitUsage || !strings.HasSuffix(got.stderr, `<shell> must be one of "bash","zsh","fish" but got "tcsh"`+"\n") {
		t.Errorf("got %+v", got)
	}
}

// TestGuide has every command in docs/cli.md or in the guides of the daemons.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(execute(t, "", "--help").stdout, "\n") {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), " ")
		if !ok || !strings.HasPrefix(line, "  ") || name == "" || name[0] == '-' || name == "version" {
			continue
		}
		if !strings.Contains(string(guide), "`"+name) && !strings.Contains(string(guide), "stint "+name) {
			t.Errorf("%s is not in docs/cli.md", name)
		}
	}
}
