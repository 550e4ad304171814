package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/stores"
)

// The first thing that anybody tries: "exactly ten", by processes that have just started.
const (
	startLimit   = 10
	startCallers = 100
)

func TestF58(t *testing.T) {
	faultAlone(t, "F58", "two and four processes that have just started, 100 callers at once under 10/1m, default settings; two busy loops per core; a healthy Redis",
		"exactly 10 in 95% of the rounds, and never more than 11", func(r *report) {
			server := redistest.Start(t)
			rounds := pick(200, 1)
			end := starve(r, 4)
			for _, processes := range []int{2, 4} {
				started(r, server.URL(), fmt.Sprintf("%d processes", processes), processes, rounds)
			}
			end()
			wantTTLs(r, server)
		})
}

// started lets processes start together, so many times, and judges how many callers were admitted.
func started(r *report, url, what string, processes, rounds int) {
	r.Helper()
	exact, least, most := 0, startCallers, 0
	for round := range rounds {
		n := startTogether(r, url, fmt.Sprintf("%s %d", what, round), processes)
		if *measure && n > startLimit+1 {
			r.Errorf("%s: %d admitted under a limit of %d", what, n, startLimit)
		}
		if n == startLimit {
			exact++
		}
		least, most = min(least, n), max(most, n)
	}
	r.saw("%s: exactly %d in %d of %d rounds, %d to %d", what, startLimit, exact, rounds, least, most)
	if *measure && exact*100 < rounds*95 {
		r.Errorf("%s: exactly %d in %d of %d rounds only", what, startLimit, exact, rounds)
	}
}

// startTogether starts processes, lets them begin at the same instant, and returns how many of
// their callers were admitted. On a busy machine, Redis may not answer processes that start: see
// docs/resilience.md, The bound. Redis and each process stay within the limit all the same.
func startTogether(r *report, url, subject string, processes int) (admitted int) {
	r.Helper()
	var all []child
	var outs []*bufio.Reader
	for range processes {
		c := spawn(r.Context(), r, "starts", startJob{url, subject, startCallers / processes})
		all, outs = append(all, c), append(outs, bufio.NewReader(c.out))
	}
	for _, out := range outs { // until it is ready
		testkit.Must(out.ReadString('\n'))(r)
	}
	for _, p := range all {
		_ = p.in.Close() // begin
	}
	byRedis := 0
	for i, p := range all {
		n, without := 0, 0
		testkit.Must(fmt.Fscan(outs[i], &n, &without))(r)
		if n > startLimit {
			r.Errorf("%s: one process admitted %d under a limit of %d", subject, n, startLimit)
		}
		admitted += n
		byRedis += n - without
		if err := p.Wait(); err != nil {
			r.Fatal(err)
		}
	}
	if byRedis > startLimit {
		r.Errorf("%s: Redis admitted %d under a limit of %d", subject, byRedis, startLimit)
	}
	return admitted
}

type startJob struct {
	URL, Subject string
	Callers      int
}

// startNow is the life of a process that has just started: it opens its store, asks once with each
// of its callers, and prints how many were admitted, and how many of these without Redis.
func startNow(j startJob) error {
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	ctx := context.Background()
	store, err := stores.Open(ctx, j.URL)
	if err != nil {
		return err
	}
	lim, err := stint.New(store, stint.PerMinute(startLimit))
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var admitted, without atomic.Int64
	for range j.Callers {
		group.Go(func() {
			if d, err := lim.Allow(ctx, j.Subject); err == nil && d.Allowed {
				admitted.Add(1)
				if d.Degraded {
					without.Add(1)
				}
			}
		})
	}
	group.Wait()
	fmt.Println(admitted.Load(), without.Load())
	return store.Close()
}
