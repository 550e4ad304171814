package contest_test

import (
	"context"
	"flag"
	"fmt"
	"io"
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
