package policy_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

var discard = slog.New(slog.DiscardHandler)

// edit replaces parts of a text, each of which must be there.
func edit(t *testing.T, text string, oldnew ...string) string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("no %q to replace in:\n%s", oldnew[i], text)
		}
		text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
	}
	return text
}

// shadowed returns the names of the rules in shadow that would have denied.
func shadowed(v *policy.Verdict) (names []string) {
	for i := range v.Results {
		if r := &v.Results[i]; r.Shadow && r.Denied {
			names = append(names, r.Rule.Name())
		}
	}
	return names
}
