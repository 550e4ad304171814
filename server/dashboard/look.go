package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server/control"
)

// How many of a list are shown: unless somebody asks for another number, and at most.
const (
	usualTop, mostTop               = 20, 1000
	usualViolations, mostViolations = 100, 1000
	usualBans                       = 100
)

// kinds are those of offenders.
var kinds = []string{"ip", "user", "apikey", "session", "internal", "envoy", "other", "policy"}

func (d *Dashboard) showTop(w http.ResponseWriter, r *http.Request) {
	by := r.FormValue("by")
	if by == "" {
		by = kinds[0]
	}
	if !slices.Contains(kinds, by) {
		answer.Refuse(w, http.StatusBadRequest, "invalid",
			fmt.Sprintf(`There are no offenders of the kind "%s"%s; want one of %s.`, label.Line(by), nearest.Hint(by, kinds), strings.Join(kinds, ", ")))
		return
	}
	if n, ok := number(w, r, usualTop, mostTop); ok {
		answer.JSON(w, http.StatusOK, struct {
			Top []observe.Offender `json:"top"`
		}{full(d.c.Monitor.Top(by, n))})
	}
}

func (d *Dashboard) showViolations(w http.ResponseWriter, r *http.Request) {
	if n, ok := number(w, r, usualViolations, mostViolations); ok {
		answer.JSON(w, http.StatusOK, struct {
			Violations []observe.Violation `json:"violations"`
		}{full(d.c.Monitor.Recent(n))})
	}
}

func (d *Dashboard) showBans(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, usualBans, control.MaxBans)
	if !ok || !d.hasDesk(w) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	defer cancel()
	list, err := d.bans.get(ctx, d.c.Desk, n)
	if err != nil {
		refuse(w, err)
		return
	}
	list = append([]control.Ban{}, list...)
	for i := range list {
		list[i].Subject, list[i].Ref = d.shown(list[i].Subject), d.refs.of(list[i].Subject)
	}
	answer.JSON(w, http.StatusOK, struct {
		Bans []control.Ban `json:"bans"`
	}{list})
}

// showSubject shows one subject, and its whole name: whoever asks about one wants to know who it is.
func (d *Dashboard) showSubject(w http.ResponseWriter, r *http.Request) {
	whom := control.Target{Subject: r.FormValue("subject"), Ref: r.FormValue("ref"), Raw: r.FormValue("raw") == "true"}
	if !d.find(w, &whom) || !d.hasDesk(w) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	told, err := d.c.Desk.Subject(ctx, whom)
	if err != nil {
		refuse(w, err)
		return
	}
	send(w, r, told)
}

// hasDesk reports whether subjects can be looked at. If not, it says so.
func (d *Dashboard) hasDesk(w http.ResponseWriter) bool {
	if d.c.Desk == nil {
		answer.Refuse(w, http.StatusNotImplemented, "unsupported", "Subjects cannot be looked at here: there is no desk (dashboard.Config.Desk).")
	}
	return d.c.Desk != nil
}

// number returns how many of a list are asked for. If it is none, it says so.
func number(w http.ResponseWriter, r *http.Request, usual, most int) (n int, ok bool) {
	text := r.FormValue("n")
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		answer.Refuse(w, http.StatusBadRequest, "invalid", fmt.Sprintf(`n is "%s"; want a number from 1 to %d.`, label.Line(text), most))
		return 0, false
	}
	return n, true
}

// full returns a list that is not nil, so that there is one in JSON too.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
