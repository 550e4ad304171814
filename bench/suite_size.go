package main

import (
	"context"
	"runtime"
	"time"
)

// runSize measures the live heap that a subject costs, its key included.
func runSize(ctx context.Context, s settings, r *report) error {
	subjects := pick(s, 1_000_000, 200_000)
	full := pick(s, 50_000, 20_000)
	r.heading("Heap per subject, bytes", "Key included. One request each under 100/min over "+thousands(int64(subjects))+
		" subjects, and "+thousands(int64(full))+" subjects with a full window.")
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
		lines = append(lines, []string{peer.name, number(round(one, 1)), number(round(whole, 1))})
		if i == 0 {
			r.bar("size: one limit, one request", round(one, 1), 120, " B")
			r.bar("size: full window of 100/min", round(whole, 1), 1024, " B")
		}
	}
	r.table([]string{"", "one request", "full window"}, lines)
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
