package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/server/control"
)

// target is whom a command is about: a subject, or a ref that stands for one.
type target struct {
	Subject string `json:"subject"`
	Ref     string `json:"ref"`
}

func (d *Dashboard) reset(w http.ResponseWriter, r *http.Request, by writer) {
	var body target
	if subject, ok := d.read(w, r, &body, &body); ok {
		d.act(w, r, by, "reset", subject, func(ctx context.Context) error { return d.c.Desk.Reset(ctx, subject) })
	}
}

func (d *Dashboard) ban(w http.ResponseWriter, r *http.Request, by writer) {
	var body struct {
		target
		For string `json:"for"`
	}
	subject, ok := d.read(w, r, &body, &body.target)
	if !ok {
		return
	}
	length, err := time.ParseDuration(body.For)
	if err != nil {
		answer.Refuse(w, http.StatusBadRequest, "invalid", fmt.Sprintf(`The ban is for "%s"; want a length such as 10m or 24h.`, label.Line(body.For)))
		return
	}
	d.act(w, r, by, "ban for "+length.String(), subject, func(ctx context.Context) error { return d.c.Desk.Ban(ctx, subject, length) })
}

func (d *Dashboard) unban(w http.ResponseWriter, r *http.Request, by writer) {
	var body target
	if subject, ok := d.read(w, r, &body, &body); ok {
		d.act(w, r, by, "unban", subject, func(ctx context.Context) error { return d.c.Desk.Unban(ctx, subject) })
	}
}

// act does something to a subject, and writes down that it was done, or why not.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request, by writer, what, subject string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	defer cancel()
	err := do(ctx)
	d.bans.changed.Store(true)
	d.note(ctx, by, what, subject, err)
	if err != nil {
		refuse(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, struct {
		OK bool `json:"ok"`
	}{true})
}

func (d *Dashboard) take(w http.ResponseWriter, r *http.Request, by writer) {
	var body struct {
		control.Ask
		Ref string `json:"ref"`
	}
	if !decode(w, r, &body) {
		return
	}
	var ok bool
	if body.Subject, ok = d.find(w, &target{body.Subject, body.Ref}); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	told, err := d.c.Desk.Take(ctx, body.Ask)
	if !body.Peek { // which changes nothing
		d.note(ctx, by, fmt.Sprintf("take %d", max(body.Cost, 1)), body.Subject, err)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, told)
}

// read reads a body, and finds its subject. If it cannot, it says so.
func (d *Dashboard) read(w http.ResponseWriter, r *http.Request, into any, whom *target) (subject string, ok bool) {
	if !decode(w, r, into) {
		return "", false
	}
	return d.find(w, whom)
}

// find returns the subject of a command or a question. If there is none, it says so.
func (d *Dashboard) find(w http.ResponseWriter, whom *target) (subject string, ok bool) {
	switch {
	case whom.Subject != "" && whom.Ref != "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "There is a subject and a ref; want one of them.")
	case whom.Subject != "":
		return whom.Subject, true
	case whom.Ref == "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "There is no subject; want one such as user:42, or a ref.")
	default:
		if subject, ok = d.refs.subject(whom.Ref); !ok { // which takes less time to find out
			subject, ok = d.c.Monitor.SubjectOf(whom.Ref)
		}
		switch {
		case !ok:
			answer.Refuse(w, http.StatusNotFound, "unknown_ref", "It is not known any more whom this ref stands for; look in a list again, or name the subject.")
		case strings.HasPrefix(subject, "~"): // see stint.Banned
			answer.Refuse(w, http.StatusBadRequest, "invalid", "The name of this subject is too long to be kept, and the list has a hash of it; name the subject.")
			ok = false
		}
	}
	return subject, ok
}

// decode reads a body of one JSON object, of which every member is known. If it is none, it says so.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	err := body.Decode(into)
	if err == nil && !errors.Is(body.Decode(&struct{}{}), io.EOF) {
		err = errors.New("there is more than one value")
	}
	if err == nil {
		return true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		answer.Refuse(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("The body is too large; want at most %d bytes.", maxBody))
		return false
	}
	answer.Refuse(w, http.StatusBadRequest, "invalid", "The body is not what is wanted here: "+strings.TrimPrefix(err.Error(), "json: ")+".")
	return false
}
