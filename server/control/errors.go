package control

import (
	"errors"
	"strings"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/nearest"
)

// ErrBlind is that the store cannot show what it knows.
var ErrBlind = errors.New("control: this store cannot show what it knows: it is no stint.Inspector")

// UnknownError is a subject that nothing in the configuration limits: most likely its name is mistyped.
type UnknownError struct {
	Subject string
	// Kinds are what subjects of the configuration begin with, as far as it can tell.
	Kinds []string
	// written says that somebody wrote the subject, and could ask for it to be taken as it is.
	written bool
}

func (e *UnknownError) Error() string {
	text := "control: nothing in the configuration limits subjects like " + named(e.Subject)
	if len(e.Kinds) == 0 {
		text += "; there is no configuration: want one, or limits"
	} else {
		kind, _, _ := strings.Cut(e.Subject, ":")
		text += "; it has subjects that begin with " + strings.Join(e.Kinds, ", ") + nearest.Hint(kind+":", e.Kinds)
	}
	if e.written {
		text += "; with --raw, ban and unban take any subject as it is"
	}
	return text
}

// named returns a subject as errors show it: enough to know it by, and no more, because errors are written to logs.
func named(subject string) string { return `"` + label.Short(subject) + `"` }

// shown returns as much of a text as errors show.
func shown(text string) string {
	const most = 64
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
