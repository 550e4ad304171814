package faults

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

func TestF15(t *testing.T) {
	fault(t, "F15", "key without TTL, or of the wrong type, planted in Redis", "heals; no permanent lockout, no 500", func(r *report) {
		server := redistest.Start(t)
		s := newStack(r, calm(server.URL()), patient(nil))
		limits := []stint.Limit{
			stint.PerMinute(3), stint.PerHour(1000), stint.PerDay(1000).BurstTimes(2),
			stint.TokenBucket(3, 3, time.Minute),
			{Max: 3, Window: time.Minute, Algorithm: stint.AlgorithmFixed}, stint.Concurrency(3, time.Minute),
		}
		bans := &stint.BanPolicy{After: 3, Within: time.Minute, Durations: []time.Duration{time.Second}}
		ours := []string{"ban", "strikes", "seen", "settled", "limits", "concurrency/1m"}
		plants := map[string][]string{
			"text":   {"SET", "hello"},
			"empty":  {"SET", ""},
			"number": {"SET", "12345678901234567890"},
			"state":  {"SET", "S" + strings.Repeat("\xff", 40)},
			"head":   {"SET", "S\x01\x0c\x00\x00\x00\x03\x93\x87\x00" + strings.Repeat("\xff", 80)},
			"short":  {"SET", "S\x01\x08\x00\x00\x00\x03\x93\x87\x00" + strings.Repeat("\x01", 30)},
			"booked": {"SET", "B" + strings.Repeat("\xff", 40)},
			"zeros":  {"SET", "B" + strings.Repeat("\x00", 23)},
			"ban":    {"SET", "N" + strings.Repeat("\x00", 22)},
			"list":   {"RPUSH", "a", "b"},
			"hash":   {"HSET", "a", "b"},
			"set":    {"SADD", "a"},
			"zset":   {"ZADD", "1", "a"},
			"stream": {"XADD", "*", "a", "b"},
		}
		for name, plant := range plants {
			subject := "planted:" + name
			for _, key := range ours {
				server.CLI(t, append([]string{plant[0], "stint:{" + subject + "}:" + key}, plant[1:]...)...)
			}
			for i := range 5 {
				q := request(subject, limits...)
				q.ID, q.Bans = "request "+strconv.Itoa(i), bans
				d, err := s.Take(t.Context(), q)
				if err != nil || d.Allowed != (i < 3) {
					r.Fatalf("%s: take %d: allowed %v, %v; want the first three allowed", name, i, d.Allowed, err)
				}
				if i == 2 {
					if _, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendSettle, Cost: 1}); err != nil {
						r.Errorf("%s: settle: %v", name, err)
					}
				}
			}
		}
		for i := range limits { // what is ours, but lost its TTL
			limit := limits[i]
			times := limit.Burst / limit.Max
			limit.Max, limit.Window, limit.Burst = 100_000, 200*time.Millisecond, 100_000*times
			key := "stint:{persistent}:limits"
			if limit.Algorithm == stint.AlgorithmConcurrency {
				key = "stint:{persistent}:" + limit.ID()
			}
			take(r, s, "persistent", limit)
			server.CLI(t, "PERSIST", key)
			testkit.Eventually(r, "a TTL for "+limit.String(), func() bool {
				take(r, s, "persistent", limit)
				return server.CLI(t, "PTTL", key) != "-1"
			})
		}
		// The roster of processes, which everybody writes.
		server.CLI(t, "DEL", "stint:instances")
		server.CLI(t, "SET", "stint:instances", "hello")
		testkit.Eventually(r, "the roster heals",
			func() bool { return server.CLI(t, "TYPE", "stint:instances") == "zset" })
		r.saw("%d kinds of foreign values under %d keys, all healed at the first decision", len(plants), len(ours))
		wantTTLs(r, server)
	})
}

func TestF24d(t *testing.T) {
	fault(t, "F24d", "one key of a batch has the wrong type or unreadable state", "its callers' state heals; no other request of the batch is affected", func(r *report) {
		const users = 200
		server := redistest.Start(t)
		seen := newWitness()
		s := newStack(r, calm(server.URL()), patient(seen))
		limit := stint.PerHour(10)
		for i, plant := range [][]string{
			{"LPUSH", "x"},
			{"SET", "S\x01\x08\x00\x00\xd6\x93\xa4\x00\x00" + strings.Repeat("\xff", 60)},
			{"SET", "nonsense"},
		} {
			server.CLI(t, plant[0], fmt.Sprintf("stint:{user:%d}:limits", 50*i), plant[1])
		}
		for round := range int64(3) {
			inParallel(users, users, func(_, i int) {
				d, err := s.Take(context.Background(), request(fmt.Sprintf("user:%d", i), limit))
				if err != nil || !d.Allowed || d.Usages()[0].Used != round+1 {
					r.Errorf("user %d in round %d: %+v, %v", i, round, d, err)
				}
			})
		}
		n := seen.counted()
		if n.calls >= n.asked {
			r.Errorf("%d calls for %d requests: no batch among them", n.calls, n.asked)
		}
		r.saw("%d requests in %d calls, 3 bad keys", 3*users, n.calls)
		wantTTLs(r, server)
	})
}
