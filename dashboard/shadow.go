package dashboard

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/observe"
)

// How many subjects that a shadow rule would have denied are shown: by default, and at most.
const usualHit, mostHit = 10, 100

// showShadow shows what shadow rules would have done.
func (d *dashboard) showShadow(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r, usualHit, mostHit)
	if !ok {
		return
	}
	answer.JSON(w, http.StatusOK, struct {
		Reports []observe.ShadowReport `json:"reports"`
	}{nonNil(d.c.Monitor.ShadowReports(d.c.Set(), n))})
}
