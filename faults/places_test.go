package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestF41(t *testing.T) {
	fault(t, "F41", "outages longer than a concurrency place lasts, under `deny`", "at most L holders that do not know that their place is lost", func(r *report) {
		server := redistest.Start(t)
		const most = 5
		limit := stint.AtOnce(most, time.Second)
		w := &ward{report: r, server: server, limit: limit,
			stacks: []*stack{newStack(r, server.URL(), resilience.Config{}),
				newStack(r, server.URL(), resilience.Config{})},
			direct: patient(r, server.URL())}
		outages := pick(4, 2)

		// Nobody asks for a place until the holders are back.
		if n := w.admit("calm", 20, patience); n != most {
			t.Fatalf("%d hold places, want %d", n, most)
		}
		for range outages {
			w.outage()
			testkit.Eventually(t, "the holders are back", func() bool {
				used, ok := look(w.direct, "calm", limit)
				return ok && used == most
			})
			if n := w.admit("calm", 20, patience); n > 0 {
				t.Errorf("%d more hold places, %d under %d", n, len(w.held), most)
			}
		}
		r.saw("%d outages: %d hold places under %d", outages, len(w.held), most)
		w.free()

		// Others ask all the time, and may be quicker than the holders.
		ctx, cancel := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		for range 4 {
			crowd.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
					w.admit("crowd", 1, budget)
				}
			})
		}
		for range outages {
			w.outage()
			time.Sleep(limit.Window)
		}
		cancel()
		crowd.Wait()
		if w.worst > most {
			t.Errorf("%d held places without having been told that they are lost, under %d", w.worst, most)
		}
		r.saw("with others asking all the time: %d held places, at most %d of them without a notice that it was lost", len(w.held), w.worst)
		w.free()
		testkit.Eventually(t, "all places are free", func() bool {
			used, ok := look(w.direct, "crowd", limit)
			return ok && used == 0
		})
		wantTTLs(r, server)
	})
}

// ward is those who hold places, in two processes.
type ward struct {
	*report
	server *redistest.Server
	limit  stint.Limit
	stacks []*stack
	direct *stack // waits for the server, and is asked who holds a place

	mu    sync.Mutex
	held  []held
	worst int // the most that held a place and were not told otherwise
}

type held struct {
	still   context.Context
	release func() error
}

// admit asks for places with a time budget, and returns how many it got.
func (w *ward) admit(subject string, times int, budget time.Duration) (n int) {
	for i := range times {
		s := w.stacks[i%len(w.stacks)]
		q := request(subject, w.limit)
		q.Failure = &stint.FailurePolicy{Mode: stint.FailDeny, Budget: budget}
		d, err := s.Take(w.Context(), q)
		if err != nil || !d.Allowed {
			continue
		}
		n++
		lim, err := stint.New(s)
		if err != nil {
			w.Fatal(err)
		}
		still, release := lim.Hold(context.Background(), d)
		w.mu.Lock()
		w.held = append(w.held, held{still, release})
		untold := 0
		for _, h := range w.held {
			if h.still.Err() == nil {
				untold++
			}
		}
		w.worst = max(w.worst, untold)
		w.mu.Unlock()
	}
	return n
}

// outage stops the server for longer than a place lasts.
func (w *ward) outage() {
	w.server.Pause(w)
	time.Sleep(w.limit.Window * 8 / 5)
	w.server.Resume(w)
}

// free releases all places, when the store can be asked.
func (w *ward) free() {
	for _, s := range w.stacks {
		awaitNormal(w.report, s)
	}
	var group sync.WaitGroup
	for _, h := range w.held {
		group.Go(func() {
			if err := h.release(); err != nil && !errors.Is(err, stint.ErrPlaceLost) {
				w.Errorf("release: %v", err)
			}
		})
	}
	group.Wait()
	w.held = nil
}
