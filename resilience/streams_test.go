package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// What streams of tokens under budgets are tested with: each is admitted with an estimate, lasts
// for five minutes, and is settled when it ends.
const (
	streamEstimate = 4096
	streamTime     = 5 * time.Minute
	perMinute      = 100_000
	perDay         = 2_000_000
	streamBeat     = 20 * time.Second
)

// stream is one in the ledger of what really happened: tokens are used evenly while it lasts.
type stream struct {
	begin, end time.Time
	tokens     float64
	reported   int64 // by its last heartbeat
	died       bool
}

// in is how many of its tokens were used in a window.
func (s *stream) in(from, to time.Time) float64 {
	if s.begin.After(from) {
		from = s.begin
	}
	if s.end.Before(to) {
		to = s.end
	}
	if length := s.end.Sub(s.begin); to.After(from) && length > 0 {
		return s.tokens * float64(to.Sub(from)) / float64(length)
	}
	return 0
}

// Streams of five minutes under budgets per minute and per day, for key, user, team and
// organization, with more demand than there is budget. A third of the processes die, and the store
// is away for ten seconds. A ledger of its own says which tokens were used when: in no window more
// than the budget and what the dead have used since their last heartbeats, and at least nine tenths
// of it. Of the dead nothing is held for longer than a
// hold lasts.
func TestStreams(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, test := range []struct {
		name  string
		truth func(rng *rand.Rand) int64
		least float64 // of what is allowed, that is used
	}{
		{"as estimated", func(*rand.Rand) int64 { return streamEstimate }, 0.9},
		{"less than estimated", func(rng *rand.Rand) int64 { return rng.Int64N(streamEstimate + 1) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStreams(t, test.truth, test.least) })
		})
	}
}

func testStreams(t *testing.T, truth func(*rand.Rand) int64, least float64) {
	const processes, dying, life = 6, 2, 2 * time.Minute
	limits := []stint.Limit{stint.PerMinute(perMinute), stint.PerDay(perDay)}
	request := stint.Request{Hold: life}
	for _, subject := range []string{"key:1", "user:1", "team:1", "org:1"} {
		request.Claims = append(request.Claims, stint.Claim{Subject: subject, Limits: limits, Cost: streamEstimate})
	}
	store := newFake(t)
	var mu sync.Mutex
	var streams []*stream
	var work sync.WaitGroup
	demand, stopDemand := context.WithCancel(t.Context())
	killed, kill := context.WithCancel(t.Context())
	begin := time.Now()
	for p := range processes {
		s := newStack(t, store, among(processes))
		lim, err := stint.New(s)
		if err != nil {
			t.Fatal(err)
		}
		dies := context.Context(t.Context())
		if p < dying {
			dies = killed
		}
		rng := rand.New(rand.NewPCG(uint64(p), 34))
		serve := func(d stint.Decision, truth int64) {
			one := &stream{begin: time.Now(), end: time.Now().Add(streamTime), tokens: float64(truth)}
			mu.Lock()
			streams = append(streams, one)
			mu.Unlock()
			for time.Now().Before(one.end) {
				sleep(dies, min(streamBeat, time.Until(one.end)))
				mu.Lock()
				if dies.Err() != nil {
					one.tokens, one.end, one.died = one.in(one.begin, time.Now()), time.Now(), true
					mu.Unlock()
					return
				}
				used := int64(one.in(one.begin, time.Now()))
				mu.Unlock()
				if done, err := lim.Extend(t.Context(), d, used); err == nil && done.Changed {
					mu.Lock()
					one.reported = used
					mu.Unlock()
				}
			}
			if done, err := lim.Settle(t.Context(), d, truth); err != nil || !done.Changed || done.Charged != truth {
				t.Errorf("settled to %d: %+v, %v", truth, done, err)
			}
		}
		work.Go(func() {
			for demand.Err() == nil && dies.Err() == nil {
				d, err := lim.Take(t.Context(), request)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					tokens := truth(rng)
					work.Go(func() { serve(d, tokens) })
				}
				sleep(demand, time.Second)
			}
		})
	}
	at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
	at(7 * time.Minute)
	store.down()
	at(7*time.Minute + 10*time.Second)
	store.up()
	at(12 * time.Minute)
	kill()
	at(35 * time.Minute)
	stopDemand()
	work.Wait()
	checkStreams(t, streams, begin, least)
	time.Sleep(life + life/64 + time.Second)
	for _, c := range request.Claims {
		seen, err := driver.Inspector(store.Store).Inspect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range seen.Windows {
			if w.Held != 0 {
				t.Errorf("%s: %d units of %s are held after a life of the hold", c.Subject, w.Held, w.Limit)
			}
		}
	}
}

// checkStreams holds what streams used against the budgets.
func checkStreams(t *testing.T, streams []*stream, begin time.Time, least float64) {
	used := func(from, to time.Time) (n float64) {
		for _, s := range streams {
			n += s.in(from, to)
		}
		return n
	}
	// What a window has is the most where a stream begins or ends at its edge.
	var edges []time.Time
	for _, s := range streams {
		edges = append(edges, s.begin, s.begin.Add(time.Minute), s.end, s.end.Add(time.Minute))
	}
	slices.SortFunc(edges, time.Time.Compare)
	most := 0.0
	for _, end := range edges {
		most = max(most, used(end.Add(-time.Minute), end))
	}
	total, unreported := used(begin, begin.Add(24*time.Hour)), 0.0
	for _, s := range streams {
		if s.died {
			unreported += s.tokens - float64(s.reported)
		}
	}
	t.Logf("%d streams: at most %.0f of %d tokens in a minute, %.0f of %d in the day, of which %.0f died unreported",
		len(streams), most, perMinute, total, perDay, unreported)
	if most > perMinute+1 {
		t.Errorf("%.0f tokens were used in a minute, want at most %d", most, perMinute)
	}
	if total > perDay+unreported+1 {
		t.Errorf("%.0f tokens were used in a day, want at most %d and %.0f that died unreported", total, perDay,
			unreported)
	}
	if total < least*perDay {
		t.Errorf("%.0f tokens were used in a day, want at least %.0f: %s", total, least*perDay,
			fmt.Sprintf("%.0f %%", 100*least))
	}
	// While the day is not used up, nine tenths of every five minutes are served: streams that
	// began in the first of them run.
	if full := used(begin.Add(5*time.Minute), begin.Add(10*time.Minute)); full < 5*least*perMinute {
		t.Errorf("%.0f tokens were used from minute 5 to 10, want at least %.0f", full, 5*least*perMinute)
	}
}
