package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// growth is the maximum memory of a daemon after all descriptors, relative to its memory after a
// tenth of them.
const growth = 1.25

// runMemory sends a daemon more and more descriptors, and measures its memory.
func (p *programs) runMemory(ctx context.Context, s contest.Settings, r *contest.Report) {
	r.Heading("Memory of the daemon, MB", "Resident memory of the process, with the limits in Redis, after this number of different descriptors. "+
		"A request for each denied descriptor is sent twice; the first is allowed.")
	flat := r.AtMost(growth, "", "memory: after all descriptors, as a share of that after a tenth")
	total := contest.Pick(s, 1_000_000, 100_000)
	steps := []int{0, total / 10, total / 4, total / 2, total}
	header := []string{"descriptors"}
	for _, n := range steps {
		header = append(header, count(float64(n)))
	}
	var rows [][]string
	for _, key := range []string{allowedKey, deniedKey} {
		sizes := p.memoryOf(ctx, key, steps)
		row := []string{key}
		for _, size := range sizes {
			row = append(row, fmt.Sprintf("%.0f", size))
		}
		rows = append(rows, row)
		flat.Judge(sizes[len(sizes)-1]/sizes[1], key)
	}
	r.Table(header, rows)
}

// memoryOf sends descriptors to a new daemon. It returns the daemon's memory in MB for each element
// of steps, measured when the number of descriptors reaches that element. The elements are in
// ascending order.
func (p *programs) memoryOf(ctx context.Context, key string, steps []int) []float64 {
	rack := process.NewRack()
	defer rack.Stop()
	all := &services{}
	defer all.close()
	stint := all.startStint(ctx, p, rack)
	var sizes []float64
	asked := 0
	for _, upTo := range steps {
		stint.askAll(ctx, key, asked, upTo)
		asked = upTo
		size := stint.process.Resident()
		sizes = append(sizes, float64(size)/(1<<20))
	}
	return sizes
}

// askAll sends requests for a range of values of a key: one for each value, or two if only the
// second is denied.
func (s *service) askAll(ctx context.Context, key string, from, to int) {
	const callers = 64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from))
	for i := range callers {
		group.Go(func() {
			client := s.clients[i%len(s.clients)]
			for n := int(next.Add(1)) - 1; n < to; n = int(next.Add(1)) - 1 {
				request := question(key, n)
				_, err := client.ShouldRateLimit(ctx, request)
				if err == nil && key == deniedKey {
					_, err = client.ShouldRateLimit(ctx, request)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	contest.OK(context.Cause(ctx))
}
