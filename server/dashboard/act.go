package dashboard

import (
	"cmp"
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

func (d *Dashboard) reset(w http.ResponseWriter, r *http.Request, by writer) {
	var body control.Target
	if d.read(w, r, &body, &body) {
		d.act(w, r, by, "reset", body, d.c.Desk.Reset)
	}
}

func (d *Dashboard) ban(w http.ResponseWriter, r *http.Request, by writer) {
	var body struct {
		control.Target
		For string `json:"for"`
	}
	if !d.read(w, r, &body, &body.Target) {
		return
	}
	length, err := time.ParseDuration(body.For)
	if err != nil {
		answer.Refuse(w, http.StatusBadRequest, "invalid", fmt.Sprintf(`The ban is for "%s"; want a length such as 10m or 24h.`, label.Line(body.For)))
		return
	}
	d.act(w, r, by, "ban for "+length.String(), body.Target, func(ctx context.Context, t control.Target) (control.Named, error) {
		return d.c.Desk.Ban(ctx, t, length)
	})
}

func (d *Dashboard) unban(w http.ResponseWriter, r *http.Request, by writer) {
	var body control.Target
	if d.read(w, r, &body, &body) {
		d.act(w, r, by, "unban", body, d.c.Desk.Unban)
	}
}

// act does something to a subject, writes down that it was done, or why not, and answers with which subject that was.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request, by writer, what string, t control.Target,
	do func(context.Context, control.Target) (control.Named, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	defer cancel()
	who, err := do(ctx, t)
	d.bans.changed.Store(true)
	d.note(ctx, by, what, cmp.Or(who.Subject, t.Subject), err)
	if err != nil {
		refuse(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, struct {
		OK bool `json:"ok"`
		control.Named
	}{true, who})
}

func (d *Dashboard) take(w http.ResponseWriter, r *http.Request, by writer) {
	var body control.Ask
	if !decode(w, r, &body) || !body.Peek && !d.may(w, r, by) {
		return
	}
	t := control.Target{Subject: body.Subject, Ref: body.Ref, Raw: body.Raw}
	if !d.find(w, &t) {
		return
	}
	body.Subject, body.Ref, body.Raw = t.Subject, t.Ref, t.Raw
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	told, err := d.c.Desk.Take(ctx, body)
	if !body.Peek { // which changes nothing
		d.note(ctx, by, fmt.Sprintf("take %d", max(body.Cost, 1)), cmp.Or(told.Subject, body.Subject), err)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, told)
}

// read reads a body, and finds its target. If it cannot, it says so.
func (d *Dashboard) read(w http.ResponseWriter, r *http.Request, into any, whom *control.Target) bool {
	return decode(w, r, into) && d.find(w, whom)
}

// find puts the subject of a ref in the place of it. If there is neither a subject nor a ref, it says so.
func (d *Dashboard) find(w http.ResponseWriter, whom *control.Target) bool {
	switch {
	case whom.Subject != "" && whom.Ref != "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "There is a subject and a ref; want one of them.")
		return false
	case whom.Subject != "":
		return true
	case whom.Ref == "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "There is no subject; want one such as user:42, or a ref.")
		return false
	}
	subject, ok := d.refs.subject(whom.Ref)
	if !ok { // the first takes less time to find out
		subject, ok = d.c.Monitor.SubjectOf(whom.Ref)
	}
	switch {
	case !ok:
		answer.Refuse(w, http.StatusNotFound, "unknown_ref", "This reference has expired; look in a list again, or name the subject.")
		return false
	case strings.HasPrefix(subject, "~"): // see stint.Banned
		answer.Refuse(w, http.StatusBadRequest, "invalid", "The name of this subject is too long to be kept, and the list has a hash of it; name the subject.")
		return false
	}
	*whom = control.Target{Subject: subject, Raw: true} // lists have subjects as they are counted
	return true
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
