package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// The default and maximum lengths of lists.
const (
	usualTop, mostTop               = 20, 1000
	usualViolations, mostViolations = 100, 1000
	usualBans                       = 100
	usualHit, mostHit               = 10, 100 // number of subjects in a shadow report
)

// kinds lists the kinds of offenders, which are the values of the query parameter "by".
var kinds = []string{"ip", "user", "apikey", "session", "internal", "envoy", "other", policyKind}

const policyKind = "policy"

func (d *dashboard) showTop(w http.ResponseWriter, r *http.Request) {
	by := r.FormValue("by")
	if by == "" {
		by = kinds[0]
	}
	if !slices.Contains(kinds, by) {
		answer.Refuse(w, http.StatusBadRequest, "invalid",
			fmt.Sprintf(`Unknown offender kind "%s"%s; want one of %s.`, label.Line(by),
				messages.Hint(by, kinds), strings.Join(kinds, ", ")))
		return
	}
	if n, ok := listLength(w, r, usualTop, mostTop); ok {
		answer.JSON(w, http.StatusOK, map[string]any{"top": d.namesFor(r).offenders(d.c.Monitor.Top(by, n))})
	}
}

func (d *dashboard) showViolations(w http.ResponseWriter, r *http.Request) {
	if n, ok := listLength(w, r, usualViolations, mostViolations); ok {
		list := d.namesFor(r).violations(d.c.Monitor.Status(n).Violations)
		answer.JSON(w, http.StatusOK, map[string]any{"violations": list})
	}
}

func (d *dashboard) showProcesses(w http.ResponseWriter, _ *http.Request) {
	answer.JSON(w, http.StatusOK, map[string]any{"processes": nonNil(d.c.Monitor.Status(0).Processes)})
}

func (d *dashboard) showBans(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r, usualBans, control.MaxBans)
	if !ok || !d.hasAdmin(w) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	defer cancel()
	list, err := d.bans.get(ctx, d.admin, n)
	if err != nil {
		refuse(w, err)
		return
	}
	list = append([]control.Ban{}, list...)
	names := d.namesFor(r)
	for i := range list {
		b := &list[i]
		known, _ := d.c.Monitor.Offender(b.Subject)
		b.Subject, b.Ref, b.Matched = names.of(b.Subject), known.Ref, known.Banned
	}
	answer.JSON(w, http.StatusOK, map[string]any{"bans": list})
}

func (d *dashboard) showShadow(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r, usualHit, mostHit)
	if !ok {
		return
	}
	reports := nonNil(d.c.Monitor.ShadowReports(d.c.Set(), n))
	names := d.namesFor(r)
	for i := range reports {
		reports[i].Top = names.offenders(reports[i].Top)
	}
	answer.JSON(w, http.StatusOK, map[string]any{"reports": reports})
}

// why explains the denial with the requested id, or lists a subject's denials around the requested
// time.
func (d *dashboard) why(w http.ResponseWriter, r *http.Request) {
	list, id := []observe.Denial(nil), r.FormValue("id")
	if id != "" {
		list = d.c.Monitor.Why(r.Context(), id)
	} else {
		target := control.Target{Subject: r.FormValue("subject"), Ref: r.FormValue("ref")}
		if !d.find(w, &target) {
			return
		}
		var at time.Time
		if text := r.FormValue("at"); text != "" {
			var err error
			if at, err = time.Parse(time.RFC3339, text); err != nil {
				answer.Refuse(w, http.StatusBadRequest, "invalid",
					fmt.Sprintf(`Invalid time "%s" in at; want one such as 2026-11-20T14:03:00Z.`, label.Line(text)))
				return
			}
		}
		list = d.c.Monitor.Denials(r.Context(), target.Subject, at)
	}
	answer.JSON(w, http.StatusOK, map[string]any{"denials": d.namesFor(r).denials(list)})
}

type subjectState struct {
	control.Subject
	Ref string `json:"ref"`
	// Denials describes the subject's recent denials. It is nil if none are known.
	Denials *observe.Offender `json:"denials,omitempty"`
}

func (d *dashboard) showSubject(w http.ResponseWriter, r *http.Request) {
	target := control.Target{Subject: r.FormValue("subject"), Ref: r.FormValue("ref"),
		Raw: r.FormValue("raw") == "true"}
	byRef := target.Ref != ""
	if !d.find(w, &target) || !d.hasAdmin(w) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	result, err := d.admin.Subject(ctx, target)
	if err != nil {
		refuse(w, err)
		return
	}
	known, denied := d.c.Monitor.Offender(result.Named.Subject)
	s := subjectState{Subject: result, Ref: known.Ref}
	d.shorten(r, byRef, &s.Named)
	if denied {
		known.Subject = s.Named.Subject
		s.Denials = &known
	}
	answer.JSON(w, http.StatusOK, s)
}

// hasAdmin reports whether subjects can be shown. If not, it refuses the request.
func (d *dashboard) hasAdmin(w http.ResponseWriter) bool {
	if d.admin == nil {
		answer.Refuse(w, http.StatusNotImplemented, "unsupported",
			"Subjects cannot be shown here: dashboard.Config has no Store.")
	}
	return d.admin != nil
}

// listLength returns the length that a request asks for in the parameter n, or usual if it has no
// such parameter. If n is invalid, listLength refuses the request and returns false.
func listLength(w http.ResponseWriter, r *http.Request, usual, most int) (n int, ok bool) {
	text := r.FormValue("n")
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		answer.Refuse(w, http.StatusBadRequest, "invalid",
			fmt.Sprintf(`Invalid n "%s"; want a number from 1 to %d.`, label.Line(text), most))
		return 0, false
	}
	return n, true
}

// nonNil returns list, or an empty list if it is nil, so that it is encoded as [] instead of null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
