package control

import (
	"errors"
	"strings"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/messages"
)

// ErrNotInspectable means that the store cannot show what it holds.
var ErrNotInspectable = errors.New("control: this store cannot show what it holds: it is not a driver.Inspector")

// UnknownError means that no limit in the configuration applies to a subject. Most likely, the
// subject is misspelled.
type UnknownError struct {
	Subject string
	// Kinds are the prefixes of subjects that the configuration limits.
	Kinds []string
	// written reports whether the subject is in the form that operators write. If so, the message
	// suggests --raw.
	written bool
}

func (e *UnknownError) Error() string {
	text := "control: nothing in the configuration limits subjects like " + quoteSubject(e.Subject)
	if len(e.Kinds) == 0 {
		text += "; there is no configuration: specify one, or limits"
	} else {
		kind, _, _ := strings.Cut(e.Subject, ":")
		text += "; it has subjects that begin with " + strings.Join(e.Kinds, ", ") + messages.Hint(kind+":", e.Kinds)
	}
	if e.written {
		text += "; with --raw, ban and unban take any subject literally"
	}
	return text
}

// quoteSubject quotes a shortened form of a subject, because errors are logged.
func quoteSubject(subject string) string { return `"` + label.Short(subject) + `"` }

func shown(text string) string { return messages.Shorten(text, 64) }
