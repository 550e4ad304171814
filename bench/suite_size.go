package main

import (
	"context"
	"runtime"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// runSize measures the live heap per subject, including its key.
func runSize(ctx context.Context, s contest.Settings, r *contest.Report) {
	subjects := contest.Pick(s, 1_000_000, 200_000)
	full := contest.Pick(s, 50_000, 20_000)
	r.Heading("Heap per subject, bytes", "Key included. One request each under 100/min over "+contest.Count(int64(subjects))+
		" subjects, and "+contest.Count(int64(full))+" subjects with a full window.")
	var lines [][]string
	for i, peer := range memoryPeers {
		contest.OK(ctx.Err())
		one := heapPerSubject(peer, subjects, 1)
		whole := heapPerSubject(peer, full, exact)
		lines = append(lines, []string{peer.name, contest.Number(round(one, 1)), contest.Number(round(whole, 1))})
		if i == 0 {
			r.AtMost(130, " B", "size: one limit, one request").Judge(round(one, 1))
			r.AtMost(1024, " B", "size: full window of 100/min").Judge(round(whole, 1))
		}
	}
	r.Table([]string{"", "one request", "full window"}, lines)
}

func heapPerSubject(peer memoryPeer, subjects, requests int) float64 {
	before := liveHeap()
	d := peer.open(exact, time.Minute)
	defer d.close()
	for range requests { // in turn, so that the requests of a subject have different times
		for i := range subjects {
			contest.Must(d.allow(subjectKey(i))) // a new string: its memory counts if the limiter keeps it
		}
	}
	bytes := liveHeap() - before
	contest.Must(d.allow(subjectKey(0))) // keeps d alive until here
	return bytes / float64(subjects)
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // collects what the finalizers of the first run released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
