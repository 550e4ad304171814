package faults

import (
	"fmt"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
)

func TestF4(t *testing.T) {
	fault(t, "F4", "4 processes × 50 goroutines on one key", "exactly L admitted, none lost", func(r *report) {
		for name, url := range map[string]string{
			"single":  redistest.Start(t).URL(),
			"cluster": urlOf(redistest.StartCluster(t).Addrs()),
		} {
			for _, limit := range pick([]int64{100, 1000}, []int64{1000}) {
				var j job
				j.URL = calm(url)
				j.Config.Failure = stint.FailurePolicy{Mode: stint.FailError, Budget: patience}
				j.Load = load{Subject: fmt.Sprint(limit), Limits: []stint.Limit{stint.PerHour(limit)},
					Callers: 50, Calls: 20}
				o := processes(t, 4, j)
				if len(o.Admitted) != int(limit) || o.failures() > 0 {
					t.Errorf("%s: %d admitted under a limit of %d, errors %v", name, len(o.Admitted), limit, o.Failed)
				}
				r.saw("%s %d of %d", name, len(o.Admitted), o.decisions())
			}
		}
	})
}
