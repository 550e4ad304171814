package faults

import (
	"math"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
)

func TestF19(t *testing.T) {
	faultAlone(t, "F19", "latency 5×D, jitter, 1 KB/s, sliced replies", "as F1; no reply misread", func(r *report) {
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr())
		s, w := watchedStack(t, proxy.URL(), resilience.Config{})
		lasts := pick(3*time.Second, 700*time.Millisecond)
		for _, o := range []ordeal{
			{
				// A process that lags behind waits for up to 250 ms more. Where no times are
				// measured, as on a busy machine, answers come later than that.
				name: "latency 5×D", mute: true,
				begin: func() { proxy.SetLatency(pick(5*budget, 20*budget), 0) },
				end:   func() { proxy.SetLatency(0, 0) },
			},
			{
				name: "jitter up to 5×D", some: true,
				begin: func() { proxy.SetLatency(0, 5*budget) },
				end:   func() { proxy.SetLatency(0, 0) },
			},
			{
				name:  "1 KB/s",
				begin: func() { proxy.SetBandwidth(1000) },
				end:   func() { proxy.SetBandwidth(0) },
			},
			{
				name: "replies byte by byte, 1 ms apart", mute: true,
				begin: func() { proxy.SetSlice(1, time.Millisecond) },
				end:   func() { proxy.SetSlice(0, 0) },
			},
		} {
			o.callers, o.lasts = 200, lasts
			endure(r, s, w, o)
		}

		// Whoever waits for long enough reads what Redis has said, however it comes.
		patient := under{s, stint.FailurePolicy{Mode: stint.FailError, Budget: patience}}
		limit := stint.PerHour(300)
		for name, set := range map[string]func(){
			"sliced":   func() { proxy.SetSlice(1, 0) },
			"jittered": func() { proxy.SetLatency(0, 2*budget) },
			"narrow":   func() { proxy.SetBandwidth(20_000) },
		} {
			set()
			subject := "read " + name
			for i := range int64(20) {
				if d := take(r, patient, subject, limit); !d.Allowed || d.Usages()[0].Used != i+1 {
					t.Fatalf("%s: call %d: allowed %v, %+v", name, i, d.Allowed, d.Usages())
				}
			}
			o := drive(t.Context(), patient,
				load{Subject: subject, Limits: []stint.Limit{limit}, Callers: 50, Calls: 8})
			if len(o.Admitted) != 280 || o.failures() > 0 {
				t.Errorf("%s: %d more admitted, want 280; errors %v", name, len(o.Admitted), o.Failed)
			}
			if used := usedOf(r, server.URL(), subject, limit); used != 300 {
				t.Errorf("%s: %d used, want 300", name, used)
			}
			proxy.SetSlice(0, 0)
			proxy.SetLatency(0, 0)
			proxy.SetBandwidth(0)
		}
		if n := w.failed(stint.KindReply); n > 0 {
			t.Errorf("%d replies were misread", n)
		}
		r.saw("no reply misread")
		wantTTLs(r, server)
	})
}

func TestSlow(t *testing.T) {
	const promise = "batching makes no caller exceed a budget that it would have met alone; one lost reply in 1,000 does not open the breaker"
	faultAlone(t, "slow Redis", "round trips of 5, 10 and 13 ms; one reply in 1,000 late or lost", promise, func(r *report) {
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr())
		if *measure {
			for _, roundTrip := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond,
				13 * time.Millisecond} {
				besideAlone(r, proxy, roundTrip)
			}
		}

		// Where times are not measured all are longer, so that a busy machine does not look like a
		// slow Redis.
		scale := pick[time.Duration](1, 20)
		for name, begin := range map[string]func(){
			"late": func() { proxy.StallReplies(1000, 50*time.Millisecond*scale) },
			"lost": func() { proxy.DropReplies(0.001) },
		} {
			s, w := watchedStack(t, proxy.URL(),
				resilience.Config{Failure: stint.FailurePolicy{Budget: budget * scale}})
			awaitNormal(r, s)
			begin()
			o := drive(t.Context(), s, load{Limits: plenty, Callers: 64, For: pick(5*time.Second, 2*time.Second)})
			proxy.StallReplies(0, 0)
			proxy.DropReplies(0)
			seen := w.counted()
			if seen.opens > 0 {
				t.Errorf("one reply in 1,000 %s: the breaker opened %d times in %d decisions", name, seen.opens, o.decisions())
			}
			r.saw("1 in 1,000 %s: breaker closed, %d of %d decisions without Redis, %d calls to it", name, o.Degraded, o.decisions(), seen.calls)
		}
		wantTTLs(r, server)
	})
}

// besideAlone compares 64 callers of a stack with 64 of the Redis store alone, who have the same
// budget, in turns.
func besideAlone(r *report, proxy *redistest.Proxy, roundTrip time.Duration) {
	r.Helper()
	proxy.SetLatency(roundTrip, 0)
	defer proxy.SetLatency(0, 0)
	// A breaker would hide who was late behind one that is open.
	s := newStack(r, proxy.URL(), resilience.Config{BreakerFailures: math.MaxInt})
	plain := alone{openStore(r, proxy.URL()), budget}
	late := func(o *outcome) float64 {
		return 100 * float64(o.Degraded+o.failures()) / float64(o.decisions()+o.failures())
	}
	calls := load{Limits: plenty, Callers: 64, Pause: 5 * time.Millisecond, For: time.Second}
	var with, without outcome
	least, leastAlone := 100.0, 100.0 // as with all times, a busy machine only makes it worse
	for range 5 {
		with = drive(r.Context(), s, calls)
		without = drive(r.Context(), plain, calls)
		r.Logf("%v: %.2f%% late, p50 %v p99 %v; alone %.2f%%, %v %v", roundTrip,
			late(&with), with.quantile(.5), with.quantile(.99), late(&without), without.quantile(.5),
			without.quantile(.99))
		least, leastAlone = min(least, late(&with)), min(leastAlone, late(&without))
	}
	r.saw("%v: %.2f%% late, each alone %.2f%%", roundTrip, least, leastAlone)
	if least > leastAlone+0.5 {
		r.Errorf("round trips of %v: %.2f%% of the decisions late, of those alone %.2f%%", roundTrip, least, leastAlone)
	}
}
