package histories

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// F41: while outages are longer than a place lasts, no more than the limit hold one at a time, and
// the places are free afterwards.
func TestOutagesLongerThanAPlace(t *testing.T) {
	sec := time.Second
	p := plan{
		instances: 1,
		subjects:  []subject{{name: "s", limits: []stint.Limit{stint.Concurrency(5, sec)}, mode: stint.FailDeny}},
		faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 3600 * time.Millisecond},
			{kind: stopServer, slot: -1, from: 7 * sec, to: 8600 * time.Millisecond}},
	}
	for _, at := range []time.Duration{1 * sec, 5 * sec, 10 * sec} {
		for i := range time.Duration(6) {
			p.steps = append(p.steps, step{at: at + i, claims: []claim{{0, 1}}, kind: hold, keep: 12 * sec})
		}
	}
	h := watched(t, t.Name(), p.happen)
	for _, wrong := range verdict(h) {
		t.Errorf("%s\n%v", wrong, h)
	}
}
