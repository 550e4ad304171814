package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/overrides"
)

const usualOverrides = 100

func (d *dashboard) showOverrides(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r, usualOverrides, control.MaxOverrides)
	if !ok || !d.hasAdmin(w) {
		return
	}
	prefix := r.FormValue("prefix")
	if label.Short(prefix) != label.Line(prefix) && !d.mayName(r) { // a longer prefix could reveal hidden names
		answer.Refuse(w, http.StatusForbidden, "forbidden",
			"The prefix is longer than the names that you may see; shorten it, or use a token with the role operate.")
		return
	}
	list, err := d.admin.Overrides(r.Context(), prefix, n)
	if err != nil {
		refuse(w, err)
		return
	}
	names := d.namesFor(r)
	for i := range list.Overrides {
		o := &list.Overrides[i]
		o.Ref = refOf(d.c.Monitor, o.Subject)
		o.Subject = names.of(o.Subject)
	}
	answer.JSON(w, http.StatusOK, list)
}

// exportOverrides sends all overrides, one per line. Only operators may call it, because it shows
// all subjects in full.
func (d *dashboard) exportOverrides(w http.ResponseWriter, r *http.Request) {
	by, ok := d.operatorOf(w, r)
	if !ok || !d.mayChange(w, r, by) {
		return
	}
	all, err := d.admin.AllOverrides()
	d.note(r.Context(), by, fmt.Sprintf("limits export, %d overrides", len(all)), "", err)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	_ = overrides.Write(w, all) // fails only if the client is gone
}

func (d *dashboard) setOverride(w http.ResponseWriter, r *http.Request, by operator) {
	var body control.SetRequest
	if !d.read(w, r, &body, &body.Target) {
		return
	}
	o := overrides.Override{Policy: body.Policy, Limits: body.Limits, Lower: body.Lower, Until: body.Until,
		Why: body.Why, By: by.name}
	d.act(w, r, by, "limits set "+describe(&o), body.Target,
		func(ctx context.Context, t control.Target) (control.Named, error) {
			return d.admin.SetOverride(ctx, t, o)
		})
}

func describe(o *overrides.Override) string {
	text := label.Line(o.Policy) + " " + label.List(o.Limits)
	if o.Lower {
		text += ", or lower"
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	if o.Why != "" {
		text += ": " + label.Line(o.Why)
	}
	return text
}

func (d *dashboard) unsetOverride(w http.ResponseWriter, r *http.Request, by operator) {
	var body control.UnsetRequest
	if !d.read(w, r, &body, &body.Target) {
		return
	}
	d.act(w, r, by, "limits unset "+label.Line(body.Policy), body.Target,
		func(ctx context.Context, t control.Target) (control.Named, error) {
			return d.admin.UnsetOverride(ctx, t, body.Policy)
		})
}

func (d *dashboard) importOverrides(w http.ResponseWriter, r *http.Request, by operator) {
	var body control.ImportRequest
	if !decodeUpTo(w, r, maxImport, &body) {
		return
	}
	for i := range body.Overrides {
		if o := &body.Overrides[i]; o.By == "" {
			o.By = by.name
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	defer cancel()
	err := d.admin.ImportOverrides(ctx, body.Overrides)
	d.note(ctx, by, fmt.Sprintf("limits import, %d overrides", len(body.Overrides)), "", err)
	if err != nil {
		refuse(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, map[string]any{"ok": true})
}
