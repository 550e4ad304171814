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
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
)

// acts returns a handler that runs an action on the subject in a request. The function do performs
// the action, and the string what describes it in the audit log.
func (d *dashboard) acts(what string, do func(context.Context, control.Target) (control.Named, error)) operatorHandler {
	return func(w http.ResponseWriter, r *http.Request, by operator) {
		var body control.Target
		if d.read(w, r, &body, &body) {
			d.act(w, r, by, what, body, do)
		}
	}
}

func (d *dashboard) ban(w http.ResponseWriter, r *http.Request, by operator) {
	var body struct {
		control.Target
		For string `json:"for"`
	}
	if !d.read(w, r, &body, &body.Target) {
		return
	}
	length, err := time.ParseDuration(body.For)
	if err != nil {
		answer.Refuse(w, http.StatusBadRequest, "invalid",
			fmt.Sprintf(`Invalid ban duration "%s"; want one such as 10m or 24h.`, label.Line(body.For)))
		return
	}
	d.act(w, r, by, "ban for "+figures.Exact(length), body.Target,
		func(ctx context.Context, t control.Target) (control.Named, error) {
			return d.admin.Ban(ctx, t, length)
		})
}

// act calls the function do with the target t, records the action in the audit log, and answers
// with the changed subject or the error.
func (d *dashboard) act(w http.ResponseWriter, r *http.Request, by operator, what string, t control.Target,
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
	d.shorten(r, false, &who)
	answer.JSON(w, http.StatusOK, struct {
		OK bool `json:"ok"`
		control.Named
	}{true, who})
}

func (d *dashboard) take(w http.ResponseWriter, r *http.Request, by operator) {
	var body control.TakeRequest
	if !decode(w, r, &body) || !body.Peek && !d.mayChange(w, r, by) {
		return
	}
	byRef := body.Ref != ""
	if !d.find(w, &body.Target) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	result, err := d.admin.Take(ctx, body)
	if !body.Peek { // a peek changes nothing
		d.note(ctx, by, fmt.Sprintf("take %d", max(body.Cost, 1)), cmp.Or(result.Subject, body.Subject), err)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	d.shorten(r, byRef, &result.Named)
	answer.JSON(w, http.StatusOK, result)
}

// read decodes the body of a request and then resolves target, which points into the decoded body;
// see decode and find. If either step fails, read refuses the request and returns false.
func (d *dashboard) read(w http.ResponseWriter, r *http.Request, into any, target *control.Target) bool {
	return decode(w, r, into) && d.find(w, target)
}

// find replaces a ref in the target with the subject that it stands for. If the target is invalid,
// find refuses the request and returns false.
func (d *dashboard) find(w http.ResponseWriter, target *control.Target) bool {
	switch {
	case target.Subject != "" && target.Ref != "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "Both a subject and a ref are given; want only one of them.")
		return false
	case target.Subject != "":
		return true
	case target.Ref == "":
		answer.Refuse(w, http.StatusBadRequest, "invalid", "No subject is given; want one such as user:42, or a ref.")
		return false
	}
	subject, ok := d.c.Monitor.SubjectOf(target.Ref)
	switch {
	case !ok:
		answer.Refuse(w, http.StatusNotFound, "unknown_ref",
			"This reference has expired. Choose the subject from a list again, or enter its name.")
		return false
	case strings.HasPrefix(subject, "~"): // see driver.Banned
		answer.Refuse(w, http.StatusBadRequest, "invalid",
			"The store keeps only a hash of this subject because its name is too long. Enter its name.")
		return false
	}
	// A ref stands for a subject in the form that counters use, so the subject is taken literally.
	*target = control.Target{Subject: subject, Raw: true}
	return true
}

// decode decodes a body that must be one JSON object without unknown members. If the body is
// invalid, it refuses the request and returns false.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	return decodeUpTo(w, r, maxBody, into)
}

func decodeUpTo(w http.ResponseWriter, r *http.Request, most int64, into any) bool {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	body.DisallowUnknownFields()
	err := body.Decode(into)
	if err == nil && !errors.Is(body.Decode(&struct{}{}), io.EOF) {
		err = errors.New("more than one JSON value")
	}
	if err == nil {
		return true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		answer.Refuse(w, http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("The body is too large; want at most %d bytes.", most))
		return false
	}
	answer.Refuse(w, http.StatusBadRequest, "invalid",
		"The body is invalid: "+strings.TrimPrefix(err.Error(), "json: ")+".")
	return false
}
