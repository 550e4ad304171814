package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// parsed reads a configuration without mistakes.
func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c := testkit.Must(Parse("stint.yaml", []byte(text)))(t)
	return c
}

// mistaken returns an error as the mistakes that it must be.
func mistaken(t *testing.T, err error) *Error {
	t.Helper()
	mistakes, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want an Error", err)
	}
	return mistakes
}

func TestMistakes(t *testing.T) {
	for _, test := range wrong {
		t.Run(test.name, func(t *testing.T) {
			set, err := Parse("stint.yaml", []byte(test.text))
			mistakes := mistaken(t, err).Mistakes
			if got, want := err.Error(), test.want; got != want || set != nil {
				t.Errorf("got %v,\n%s\nwant\n%s", set, got, want)
			}
			for _, m := range mistakes {
				if m.File != "stint.yaml" || m.Line < 1 || m.Message == "" {
					t.Errorf("a mistake without a place or a message: %+v", m)
				}
			}
		})
	}
}

func TestManyMistakesAreOneText(t *testing.T) {
	var text strings.Builder
	text.WriteString("tiers:\n")
	for range 1000 {
		text.WriteString("  - {name: all, identity: ip, limits: 10}\n")
	}
	_, err := Parse("stint.yaml", []byte(text.String()))
	mistakes := mistaken(t, err).Mistakes
	lines := strings.Split(err.Error(), "\n")
	if want := fmt.Sprintf("and %d more mistakes", len(mistakes)-50); len(lines) != 51 || lines[50] != want {
		t.Errorf("got %d lines that end in %q, want 51 and %q", len(lines), lines[len(lines)-1], want)
	}
}

// TestAliasesAreBounded repeats a value more often than a configuration may have any.
func TestAliasesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("tiers:\n  - {name: all, limits: 1/1m, identity: &a [" + strings.Repeat("ip,", 1000) + "]}\n")
	for range 200 {
		text.WriteString("  - {name: b, limits: 1/1m, identity: *a}\n")
	}
	_, err := Parse("stint.yaml", []byte(text.String()))
	const want = "stint.yaml:2: tiers[99].identity[598]: more than 100000 values in one file; an alias counts each time it is used"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%.400v\nwant\n%s", err, want)
	}
	for _, cyclic := range []string{"tiers: &a [*a]\n", "tiers: &a {name: *a}\n", "&a tiers: *a\n",
		"claims: &a {b: *a}\n", "tiers: [{name: x, limits: &l [*l]}]\n"} {
		if _, err := Parse("stint.yaml", []byte(cyclic)); err == nil {
			t.Errorf("%q is accepted", cyclic)
		}
	}
}
