package dashboard

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/observe"
)

// The default and maximum numbers of subjects shown for a shadow rule.
const usualHit, mostHit = 10, 100

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
	answer.JSON(w, http.StatusOK, struct {
		Reports []observe.ShadowReport `json:"reports"`
	}{reports})
}
