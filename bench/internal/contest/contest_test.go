package contest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// command has two suites, that print their name and settings, and a flag.
func command(word *string) contest.Command {
	suite := func(name string) contest.Suite {
		return contest.Suite{Name: name, Run: func(_ context.Context, s contest.Settings, r *contest.Report) {
			r.Printf("%s %d %v %s\n", name, s.Rounds, s.Short, *word)
		}}
	}
	return contest.Command{
		Name:   "test",
		Suites: []contest.Suite{suite("one"), suite("two")},
		Flags: func(f *flag.FlagSet) {
			f.SetOutput(io.Discard)
			f.StringVar(word, "word", "-", "a `word`")
		},
		About: func(s contest.Settings) string { return fmt.Sprintf("about %d", s.Rounds) },
	}
}

func TestCommand(t *testing.T) {
	tests := []struct{ args, first, want string }{
		{"", "9 rounds; about 9.", "one 9 false -\ntwo 9 false -\n"},
		{"-short -word x", "3 rounds, short; about 3.", "one 3 true x\ntwo 3 true x\n"},
		{"-rounds 5 -only two", "5 rounds; about 5.", "two 5 false -\n"},
		{"-only two,one", "9 rounds; about 9.", "one 9 false -\ntwo 9 false -\n"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			var out strings.Builder
			synctest.Test(t, func(t *testing.T) { // where no time passes
				var word string
				if err := command(&word).Run(t.Context(), strings.Fields(test.args), &out); err != nil {
					t.Fatal(err)
				}
			})
			first, rest, _ := strings.Cut(out.String(), "\n")
			if !strings.HasSuffix(first, test.first) {
				t.Errorf("got %q first, want %q at its end", first, test.first)
			}
			if want := test.want + "\nThe run took 0s.\n"; rest != want {
				t.Errorf("got %q, want %q", rest, want)
			}
		})
	}
}

func TestCommandWritesItsReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.md")
	var out strings.Builder
	var word string
	if err := command(&word).Run(t.Context(), []string{"-o", file}, &out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "<!-- bench:begin -->\n" + out.String() + "<!-- bench:end -->\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestCommandFails(t *testing.T) {
	broken := errors.New("broken")
	var word string
	c := command(&word)
	c.Suites = append(c.Suites, contest.Suite{
		Name: "three", Run: func(context.Context, contest.Settings, *contest.Report) { contest.OK(broken) }})
	tests := []struct{ args, want string }{
		{"-only one,four", `unknown suite "four"; want any of one, two, three`},
		{"-only three", "three: broken"},
		{"-rounds many", "invalid value"},
		{"-help", flag.ErrHelp.Error()},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			var out strings.Builder
			err := c.Run(t.Context(), strings.Fields(test.args), &out)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
