package observe

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
)

func TestRefs(t *testing.T) {
	n, other := newNames(label.Short), newNames(label.Short)
	for _, subject := range []string{"user:42", "", "\x00\xff{}:\n", strings.Repeat("x", stint.MaxSubject)} {
		ref := n.seal(subject)
		if got, ok := n.subject(ref); !ok || got != subject || ref != n.seal(subject) || url.QueryEscape(ref) != ref {
			t.Errorf("%q: %s stands for %q", subject, ref, got)
		}
		if _, ok := other.subject(ref); ok || other.seal(subject) == ref {
			t.Errorf("%q: the ref is good elsewhere", subject)
		}
		for _, wrong := range []string{ref[1:], ref[:len(ref)-2], ref + "AA", "~", "A", "",
			strings.Repeat("A", 2*stint.MaxSubject)} {
			if got, ok := n.subject(wrong); ok {
				t.Errorf("%s stands for %q", wrong, got)
			}
		}
	}
}
