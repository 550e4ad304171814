package main

import (
	"context"
	"runtime"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// runSize measures the live heap that a subject costs, its key included.
func runSize(ctx context.Context, s contest.Settings, r *contest.Report) error {
	subjects := contest.Pick(s, 1_000_000, 200_000)
	full := contest.Pick(s, 50_000, 20_000)
	r.Heading("Heap per subject, bytes", "Key included. One request each under 100/min over "+contest.Count(int64(subjects))+
		" subjects, and "+contest.Count(int64(full))+" subjects with a full window.")
	var lines [][]string
	for i, peer := range memoryPeers {
		if err := ctx.Err(); err != nil {
			return err
		}
		one, err := heapPerSubject(peer, subjects, 1)
		if err != nil {
			return err
		}
		whole, err := heapPerSubject(peer, full, exact)
		if err != nil {
			return err
		}
		lines = append(lines, []string{peer.name, contest.Number(round(one, 1)), contest.Number(round(whole, 1))})
		if i == 0 {
			r.AtMost(120, " B", "size: one limit, one request").Judge(round(one, 1))
			r.AtMost(1024, " B", "size: full window of 100/min").Judge(round(whole, 1))
		}
	}
	r.Table([]string{"", "one request", "full window"}, lines)
	return nil
}

func heapPerSubject(peer memoryPeer, subjects, requests int) (float64, error) {
	before := liveHeap()
	d, err := peer.open(exact, time.Minute)
	if err != nil {
		return 0, err
	}
	defer d.close()
	for range requests { // in turn, so that every request of a subject has a time of its own
		for i := range subjects {
			key := subjectKey(i) // made here: whoever keeps it, pays for it
			if _, err := d.allow(key); err != nil {
				return 0, err
			}
		}
	}
	bytes := liveHeap() - before
	_, err = d.allow(subjectKey(0)) // it was alive until now
	return bytes / float64(subjects), err
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
