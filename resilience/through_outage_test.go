package resilience

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// asker asks at instants since its start, without waiting for the answers, and counts the admitted.
type asker struct {
	*testing.T
	s        *Stack
	start    time.Time
	admitted atomic.Int64
}

func (a *asker) at(since time.Duration) { time.Sleep(time.Until(a.start.Add(since))) }

func (a *asker) ask(r stint.Request, allowed func()) {
	go func() {
		if mustDecide(a, a.s, r).Allowed {
			a.admitted.Add(1)
			allowed()
		}
	}()
	synctest.Wait()
}

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

// F50: a caller that uses four fifths of a limit, evenly, is not denied before, in and after an
// outage.
func TestSteadyCallerThroughAnOutage(t *testing.T) {
	for _, limit := range []stint.Limit{
		stint.PerSecond(10).WithBurst(3), stint.TokenBucket(10, 10, time.Second), stint.Per(50, 5*time.Second),
		{Max: 50, Window: 5 * time.Second, Algorithm: stint.AlgorithmFixed},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			each(t, failures, Config{Instances: 1}, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
				const asked = 400
				a := &asker{T: t, s: s, start: time.Now()}
				for i := range asked {
					a.at(time.Duration(i) * 125 * time.Millisecond)
					switch i {
					case 160:
						fail(store)
					case 256:
						store.up()
					}
					a.ask(oneUnit("a", limit), func() {})
				}
				time.Sleep(time.Second)
				if n := a.admitted.Load(); n != asked {
					t.Errorf("%d of %d admitted", n, asked)
				}
			})
		})
	}
}
