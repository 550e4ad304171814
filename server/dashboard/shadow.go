package dashboard

import (
	"net/http"

	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// How many of those a rule in shadow would have hit are shown: unless somebody asks for another number, and at most.
const usualHit, mostHit = 10, 100

// showShadow shows what rules in shadow would have done.
func (d *Dashboard) showShadow(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, usualHit, mostHit)
	if !ok {
		return
	}
	var set *policy.Set
	if d.c.Set != nil {
		set = d.c.Set()
	}
	send(w, r, struct {
		Trials []observe.Trial `json:"trials"`
	}{full(d.c.Monitor.Trials(set, n))})
}
