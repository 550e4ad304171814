package faults

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestF26(t *testing.T) {
	faultAlone(t, "F26", "deny cache under clock steps, limit changes, deletes made behind our back, 1,000,000 denied keys",
		"never denies wrongly for more than 1 s; bounded", func(r *report) {
			server := redistest.StartFakeTime(t)
			seen := newWitness()
			config := resilience.Config{
				Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: patience}, Observer: seen, Denials: 1 << 14}
			s, other := newStack(t, calm(server.URL()), config), newStack(t, calm(server.URL()), config)
			testkit.Eventually(r, "both listen",
				func() bool { return strings.HasSuffix(server.CLI(t, "PUBSUB", "NUMSUB", "stint:room"), "2") })

			// denied uses up the limit, and is denied from memory.
			denied := func(s stint.Store, q stint.Request) (last stint.Decision) {
				r.Helper()
				for n := 0; n < 20; n++ {
					d, err := s.Take(context.Background(), q)
					if err != nil {
						r.Fatal(err)
					}
					if d.Allowed {
						n, last = 0, d
					}
				}
				return last
			}
			// deniedFor is how long that goes on: until the last denial was asked for.
			deniedFor := func(what string, q stint.Request) (last time.Duration) {
				r.Helper()
				start := time.Now()
				testkit.Eventually(r, what, func() bool {
					asked := time.Since(start)
					d, err := s.Take(context.Background(), q)
					if err == nil && d.Allowed {
						return true
					}
					last = asked
					return false
				})
				return last
			}

			// What nobody tells of.
			q := request("flushed", stint.PerHour(1))
			denied(s, q)
			server.CLI(t, "FLUSHALL")
			r.within("denied after FLUSHALL for", deniedFor("room after FLUSHALL", q), time.Second)

			q = request("stepped", stint.PerMinute(1))
			denied(s, q)
			server.SetClockOffset(t, time.Hour)
			r.within("after a clock step for", deniedFor("room after a step of the clock", q), time.Second)

			// What others do is heard of, long before the second is over.
			const heard = 250 * time.Millisecond
			q = request("refunded", stint.PerHour(1))
			charge := denied(other, q).Charge
			denied(s, q)
			if done, err := other.Amend(t.Context(), charge, stint.Amendment{}); !done.Changed || err != nil {
				r.Fatalf("refund: %v, %v", done, err)
			}
			r.within("after a refund elsewhere for", deniedFor("room after a refund", q), heard)

			q = request("reset", stint.PerHour(1))
			denied(s, q)
			if err := other.Command(t.Context(),
				stint.Command{Kind: stint.CommandReset, Subject: "reset", Limits: q.Claims[0].Limits}); err != nil {
				r.Fatal(err)
			}
			r.within("a reset for", deniedFor("room after a reset", q), heard)

			q = request("banned", stint.PerHour(1_000_000))
			q.Bans = &stint.BanPolicy{}
			if err := other.Command(t.Context(),
				stint.Command{Kind: stint.CommandBan, Subject: "banned", For: time.Hour}); err != nil {
				r.Fatal(err)
			}
			denied(s, q)
			if err := other.Command(t.Context(),
				stint.Command{Kind: stint.CommandUnban, Subject: "banned"}); err != nil {
				r.Fatal(err)
			}
			r.within("an unban for", deniedFor("room after an unban", q), heard)
			if seen.saved < 4*10 {
				r.Errorf("%d denials from memory; want many", seen.saved)
			}

			// A flood of keys that are denied.
			keys := int64(pick(1_000_000, 20_000))
			before := heap()
			var next, wrong atomic.Int64
			var group sync.WaitGroup
			never := stint.PerHour(0)
			for range 64 {
				group.Go(func() {
					for i := next.Add(1); i <= keys; i = next.Add(1) {
						d, err := s.Take(context.Background(), request("denied:"+strconv.FormatInt(i, 10), never))
						if err != nil || d.Allowed {
							wrong.Add(1)
						}
					}
				})
			}
			group.Wait()
			grown := heap() - before
			if wrong.Load() > 0 {
				r.Errorf("%d of %d wrong answers", wrong.Load(), keys)
			}
			const most = 32 << 20 // 16,384 entries, and what the rest of the stack has to remember
			if grown > most {
				r.Errorf("the heap grew by %d MB; want at most %d MB", grown>>20, most>>20)
			}
			if !take(r, s, "free", stint.PerHour(1)).Allowed {
				r.Error("somebody was denied who has asked for the first time")
			}
			r.saw("%d denied keys: heap +%.1f MB", keys, float64(max(grown, 0))/(1<<20))
			wantTTLs(r, server)
		})
}
