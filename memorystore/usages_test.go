package memorystore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
)

// TestUsagesAreTheCallers: usages of decisions share memory with those of others, but never their
// own part of it: a caller that writes to them changes no other decision. Run it with -race.
func TestUsagesAreTheCallers(t *testing.T) {
	s := newStore(t, Config{})
	limits := []stint.Limit{stint.PerMinute(50), stint.PerHour(1 << 20)}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 300 {
				r := stint.Request{Claim: stint.Claim{Subject: fmt.Sprint("user:", i%3), Limits: limits, Cost: 1}}
				switch (g + i) % 4 {
				case 1:
					r.Mode = stint.ModePeek
				case 2:
					r.And = []stint.Claim{{Subject: "team", Limits: limits, Cost: 1}}
				case 3:
					r.ID = fmt.Sprint("id:", i)
				}
				d, err := s.Take(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if want := 2 * (1 + len(r.And)); len(d.Usages) != want {
					t.Errorf("%d usages, want %d", len(d.Usages), want)
				}
				for k := range d.Usages {
					if used := d.Usages[k].Used; used < 0 || used > 1<<20 {
						t.Errorf("%d are used: somebody else wrote to the decision", used)
					}
					d.Usages[k].Used = -1
				}
				_ = append(d.Usages, stint.Usage{Used: -1})
			}
		})
	}
	group.Wait()
}
