package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMistakes(t *testing.T) {
	for _, test := range wrong {
		t.Run(test.name, func(t *testing.T) {
			set, err := Parse("stint.yaml", []byte(test.text))
			var config *Error
			if !errors.As(err, &config) || set != nil {
				t.Fatalf("got %v, %v; want a Error", set, err)
			}
			if got, want := err.Error(), test.want; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for _, m := range config.Mistakes {
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
	var config *Error
	if !errors.As(err, &config) {
		t.Fatal(err)
	}
	lines := strings.Split(err.Error(), "\n")
	if want := fmt.Sprintf("and %d more mistakes", len(config.Mistakes)-50); len(lines) != 51 || lines[50] != want {
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
