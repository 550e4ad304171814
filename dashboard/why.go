package dashboard

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// why explains the denial with an id, or lists the denials of a subject around a time.
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
	answer.JSON(w, http.StatusOK, struct {
		Denials []observe.Denial `json:"denials"`
	}{d.namesFor(r).denials(list)})
}
