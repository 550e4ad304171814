package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/server/control"
)

// refuse answers a request with the status and the message for err.
func refuse(w http.ResponseWriter, err error) {
	if unknown, ok := errors.AsType[*control.UnknownError](err); ok {
		answer.Refuse(w, http.StatusNotFound, "unknown_subject", sentence(unknown))
		return
	}
	if errors.Is(err, control.ErrNotInspectable) || errors.Is(err, errors.ErrUnsupported) {
		answer.Refuse(w, http.StatusNotImplemented, "unsupported", sentence(err))
		return
	}
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		answer.Refuse(w, http.StatusBadRequest, "invalid", sentence(invalid.Err))
		return
	}
	answer.Refuse(w, http.StatusServiceUnavailable, "store", "The store did not answer: "+sentence(err))
}

// sentence returns an error's text on one line, without package prefixes.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, prefix := range [...]string{"control: ", "stint: ", "invalid: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
