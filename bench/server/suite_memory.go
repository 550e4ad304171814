package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/server/process"
)

// growth is how much memory a daemon may have after all descriptors, beside that after a tenth of
// them.
const growth = 1.25

// runMemory asks a daemon for ever more descriptors, and looks at its memory.
func (p *programs) runMemory(ctx context.Context, s contest.Settings, r *contest.Report) error {
	r.Heading("Memory of the daemon, MB", "The process's resident memory, with the limits in Redis, after so many descriptors, all different. "+
		"Denied ones are asked for twice, of which the first is allowed.")
	flat := r.AtMost(growth, "", "memory: after all descriptors, as a share of that after a tenth")
	total := contest.Pick(s, 1_000_000, 100_000)
	steps := []int{0, total / 10, total / 4, total / 2, total}
	header := []string{"descriptors"}
	for _, n := range steps {
		header = append(header, count(float64(n)))
	}
	var rows [][]string
	for _, key := range []string{allowedKey, deniedKey} {
		sizes, err := p.memoryOf(ctx, key, steps)
		if err != nil {
			return err
		}
		row := []string{key}
		for _, size := range sizes {
			row = append(row, fmt.Sprintf("%.0f", size))
		}
		rows = append(rows, row)
		flat.Judge(sizes[len(sizes)-1]/sizes[1], key)
	}
	r.Table(header, rows)
	return nil
}

// memoryOf is the memory of a new daemon in MB, each time it has been asked for so many descriptors
// in all.
func (p *programs) memoryOf(ctx context.Context, key string, steps []int) ([]float64, error) {
	rack, err := process.NewRack()
	if err != nil {
		return nil, err
	}
	defer rack.Stop()
	all := &services{}
	defer all.close()
	stint, err := all.startStint(ctx, p, rack)
	if err != nil {
		return nil, err
	}
	var sizes []float64
	asked := 0
	for _, upTo := range steps {
		if err := stint.askAll(ctx, key, asked, upTo); err != nil {
			return nil, err
		}
		asked = upTo
		size, err := stint.process.Resident()
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, float64(size)/(1<<20))
	}
	return sizes, nil
}

// askAll asks for the values of a key from one number up to another: once, or twice if that is what
// it takes to be denied.
func (s *service) askAll(ctx context.Context, key string, from, to int) error {
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
	return context.Cause(ctx)
}
