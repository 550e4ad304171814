package policy_test

import (
	"log/slog"
	"strings"
	"testing"
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
