package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// A process sends no time of its own but until when it waits for an answer, and that in the
// server's. So hosts that are apart from each other are hosts that are apart from the server: it is
// the server that is moved here, for the clock of a Go program cannot be.
func TestF6(t *testing.T) {
	fault(t, "F6", "clocks of limiter hosts ±10 min apart", "no effect", func(r *report) {
		const limit = 300
		for _, apart := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			server := redistest.StartFakeTime(t)
			server.SetClockOffset(t, apart)
			var j job
			j.URL = calm(server.URL())
			j.Config.Failure = stint.FailurePolicy{Mode: stint.FailError, Budget: patience}
			j.Load = load{Limits: []stint.Limit{stint.PerHour(limit)}, Callers: 20, Calls: 20}
			o := processes(t, 2, j)
			if len(o.Admitted) != limit || o.failures() > 0 {
				r.Errorf("%v apart: %d of %d admitted, errors %v; want exactly %d", apart, len(o.Admitted), o.decisions(), o.Failed, limit)
			}
			// Leases end by the clock of the host.
			j.Load.Subject, j.Load.Limits = "leased", []stint.Limit{stint.PerHour(limit).WithLease()}
			j.Load.Callers, j.Load.Calls, j.Load.Pause = 2, 150, time.Millisecond
			leased := processes(t, 2, j)
			if n := len(leased.Admitted); n > limit || n == 0 || leased.failures() > 0 {
				r.Errorf("%v apart, leased: %d of %d admitted, errors %v; want some, and no more than %d",
					apart, n, leased.decisions(), leased.Failed, limit)
			}
			s := patient(r, server.URL())
			before := time.Now()
			d := take(r, s, "told", stint.PerMinute(1))
			at := time.UnixMicro(d.Charge.Data().At).Add(-apart)
			if at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
				r.Errorf("%v apart: charged at %v by our clock, asked at %v", apart, at, before)
			}
			if reset := d.Usages()[0].ResetAfter; !d.Allowed || reset > time.Minute || reset < 50*time.Second {
				r.Errorf("%v apart: allowed %v with a reset after %v, want a minute", apart, d.Allowed, reset)
			}
			r.saw("%v: %d of %d, leased %d of %d", apart, len(o.Admitted), o.decisions(), len(leased.Admitted),
				leased.decisions())
			wantTTLs(r, server)
		}
	})
}

func TestF7(t *testing.T) {
	fault(t, "F7", "Redis host's clock steps −1 h / +1 h", "lockout never longer than one window; extra ≤ C",
		func(r *report) {
			const window = time.Second
			server := redistest.StartFakeTime(t)
			s := newStack(t, calm(server.URL()),
				resilience.Config{Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: patience}})
			limits := []stint.Limit{
				stint.Per(20, window),
				stint.Per(500, window), // sliced
				stint.TokenBucket(20, 20, window),
				{Max: 20, Window: window, Algorithm: stint.AlgorithmFixed},
			}
			for _, step := range []time.Duration{-time.Hour, time.Hour} {
				server.SetClockOffset(t, 0)
				outcomes, store, lockout := stepClock(r, server, s, limits, step)
				lost, decisions := 0, 0
				for i := range limits {
					steady := limits[i].Max // A
					if limits[i].Algorithm != stint.AlgorithmSliding {
						steady += limits[i].Capacity()
					}
					o := &outcomes[i]
					most, want := o.surely(window), int(steady+limits[i].Capacity())
					if most > want {
						r.Errorf("%v, step %v: %d admitted in a window; want at most %d", limits[i], step, most, want)
					}
					r.Logf("%v, step %v: %d in a window, A + C = %d", limits[i], step, most, want)
					lost, decisions = lost+o.failures()+o.Degraded, decisions+o.decisions()
				}
				if lost > 0 {
					r.Errorf("step %v: %d errors and degraded decisions; want decisions to go on", step, lost)
				}
				r.saw("%v: %d of %d decisions lost", step, lost, decisions)
				const grain = window/stint.Resolution + 50*time.Millisecond
				r.within("longest lockout by the store", store, window+grain)
				// Denials of before the step may be repeated for a second, so that the store hears
				// of it that much later.
				r.within("with denials from memory", lockout, window+time.Second+grain)
			}
			wantTTLs(r, server)
		})
}

// stepClock steps the server's clock in the middle of loads that are always above their limits. It
// returns what became of them, and how long nobody was admitted after the step: by the store alone,
// and by the stack.
func stepClock(r *report, server *redistest.Server, s *stack, limits []stint.Limit, step time.Duration) (
	outcomes []outcome, alone, all time.Duration) {
	r.Helper()
	stops := make([]func() outcome, len(limits))
	for i, limit := range limits {
		l := load{Subject: limit.String() + step.String(), Limits: limits[i : i+1], Callers: 4, Pause: time.Millisecond}
		stops[i] = driving(r.Context(), s, l)
		testkit.Eventually(r, "the limit is used up", func() bool { return !take(r, s, l.Subject, limit).Allowed })
	}
	used := make([]stint.Request, len(limits)) // of those who ask the store alone
	for i, limit := range limits {
		used[i] = request("alone:"+limit.String()+step.String(), limit)
		used[i].Claims[0].Cost = limit.Max
		if d, err := s.redis.Take(r.Context(), used[i]); err != nil || !d.Allowed {
			r.Fatalf("%v: %+v, %v", limit, d, err)
		}
	}
	server.SetClockOffset(r, step)
	stepped := time.Now()
	testkit.Eventually(r, "room", func() bool {
		room := true
		for i, limit := range limits {
			used[i].Claims[0].Cost = min(used[i].Claims[0].Cost, 1) // none if there was room before
			d, err := s.redis.Take(r.Context(), used[i])
			if err != nil {
				r.Fatal(err)
			}
			if d.RetryAfter > limit.Window+limit.Window/stint.Resolution+2*time.Millisecond {
				r.Fatalf("%v, step %v: told to wait for %v; want at most a window", limit, step, d.RetryAfter)
			}
			if d.Allowed {
				used[i].Claims[0].Cost = 0
			}
			room = room && d.Allowed
		}
		return room
	})
	alone = time.Since(stepped)
	time.Sleep(time.Until(stepped.Add(3 * limits[0].Window)))
	for i, stop := range stops {
		outcomes = append(outcomes, stop())
		// Whoever was on the way during the step is in neither time.
		next, _ := slices.BinarySearch(outcomes[i].Admitted, stepped.Add(5*time.Millisecond).UnixMicro())
		if next == len(outcomes[i].Admitted) {
			r.Fatalf("%v, step %v: locked out", limits[i], step)
		}
		all = max(all, time.UnixMicro(outcomes[i].Admitted[next]).Sub(stepped))
	}
	return outcomes, alone, all
}
