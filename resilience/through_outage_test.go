package resilience

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// outages are ways in which a store fails and charges nothing; under failures, it may charge what
// it answers too late.
var (
	outages = map[string]func(*fake){
		"refused":     func(s *fake) { s.fail(refusedCall()) },
		"unreachable": (*fake).down,
		"too slow":    func(s *fake) { s.change(way{there: lateBy}) },
	}
	failures = map[string]func(*fake){
		"refused": outages["refused"], "unreachable": outages["unreachable"], "too slow": outages["too slow"],
		"late": func(s *fake) { s.change(way{back: lateBy}) },
	}
)

// In the first window of an outage a process admits at least 95% of what an exact count admits,
// and never more than the limit, with 90% of it wanted.
func TestAdmitsInTheFirstWindow(t *testing.T) {
	testkit.SkipUnderRace(t)
	const window = 10 * time.Second
	for _, limit := range []stint.Limit{stint.Per(10, window), stint.Per(100, window)} {
		got, exact := 0, 0
		for seed := range uint64(30) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				reference, rng, start, r := newFake(t), rand.New(rand.NewPCG(seed, 1)), time.Now(), oneUnit("a", limit)
				var admitted []time.Duration
				for down := false; ; {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(window) / 0.9 / float64(limit.Max)))
					at := time.Since(start)
					if at > 4*window {
						break
					}
					if at > 3*window && !down {
						store.fail(refusedCall())
						down = true
					}
					if mustDecide(t, reference, r).Allowed && down {
						exact++
					}
					if !mustDecide(t, s, r).Allowed {
						continue
					}
					if down {
						got++
					}
					admitted = append(admitted, at)
					if n := len(admitted) - int(limit.Max) - 1; n >= 0 && at-admitted[n] < window {
						t.Fatalf("seed %d: more than %v until %v", seed, limit, at)
					}
				}
			})
		}
		t.Logf("%v: %d of %d", limit, got, exact)
		if got*100 < exact*95 {
			t.Errorf("%v: %d admitted, want at least 95 %% of %d", limit, got, exact)
		}
	}
}
