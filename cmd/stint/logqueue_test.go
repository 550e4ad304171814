package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logReader is a writer that can stall or fail. It keeps what is written to it.
type logReader struct {
	mu      sync.Mutex // locked while writes stall
	text    bytes.Buffer
	longest int
	room    int // number of bytes until writes fail; -1 means no limit
}

var errFull = errors.New("no space left on device")

func newLogReader() *logReader { return &logReader{room: -1} }

func (r *logReader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.room < 0 {
		r.longest = max(r.longest, len(p))
		return r.text.Write(p)
	}
	n := min(r.room, len(p))
	r.text.Write(p[:n])
	if r.room -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (r *logReader) setRoom(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room = bytes
}

func (r *logReader) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.text.String(), "\n"), "\n")
}

func reportDropped(w io.Writer, dropped int64) { fmt.Fprintf(w, "dropped %d\n", dropped) }

const flushing = time.Minute

// TestSeveralWriters uses several writers, and a reader that sometimes stalls. Every record arrives
// whole and in its writer's order, or is reported as dropped.
func TestSeveralWriters(t *testing.T) {
	r := newLogReader()
	q := newLogQueue(r, reportDropped)
	const writers, each = 4, 10_000
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				fmt.Fprintf(q, "writer %d %d %s\n", w, i, strings.Repeat("x", i%200))
			}
		})
	}
	stalls, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stalls)
		for {
			select {
			case <-done:
				return
			default:
			}
			r.mu.Lock()
			time.Sleep(time.Millisecond)
			r.mu.Unlock()
		}
	}()
	group.Wait()
	close(done)
	<-stalls
	q.Flush(flushing)
	next := [writers]int{}
	arrived, reported := int64(0), int64(0)
	for _, line := range r.lines() {
		var w, i, n int
		if _, err := fmt.Sscanf(line, "dropped %d", &n); err == nil {
			reported += int64(n)
			continue
		}
		if _, err := fmt.Sscanf(line, "writer %d %d ", &w, &i); err != nil ||
			line != fmt.Sprintf("writer %d %d %s", w, i, strings.Repeat("x", i%200)) {
			t.Fatalf("a line is torn: %q", line)
		}
		if i < next[w] {
			t.Fatalf("writer %d: %d came after %d", w, i, next[w]-1)
		}
		next[w] = i + 1
		arrived++
	}
	if reported != q.Dropped() || arrived+reported != writers*each {
		t.Errorf("%d arrived, %d were reported, %d counted; want %d in all", arrived, reported, q.Dropped(), writers*each)
	}
	if r.longest > 4096 {
		t.Errorf("a write of short lines has %d bytes; a pipe may mix it with those of other processes", r.longest)
	}
}

// TestFailingWriter checks that records that cannot be written are counted, and reported before the
// next record that is written. After a torn line, the next record begins on a new line.
func TestFailingWriter(t *testing.T) {
	r := newLogReader()
	q := newLogQueue(r, reportDropped)
	write := func(text string) {
		fmt.Fprintln(q, text)
		q.Flush(flushing)
	}
	write("one")
	r.setRoom(3)
	write("two and more")
	write("three")
	write("four")
	if got := q.Dropped(); got != 3 {
		t.Errorf("%d counted, want 3", got)
	}
	r.setRoom(-1)
	write("five")
	write("six")
	if got, want := strings.Join(r.lines(), "|"), "one|two|dropped 3|five|six"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLongRecord checks that a record that is longer than the queue is dropped, but later records
// are not.
func TestLongRecord(t *testing.T) {
	r := newLogReader()
	q := newLogQueue(r, reportDropped)
	long := strings.Repeat("y", 100_000)
	for _, text := range []string{strings.Repeat("x", 1<<20), long, "short"} {
		fmt.Fprintln(q, text)
		q.Flush(flushing)
	}
	if got, want := strings.Join(r.lines(), "|"), "dropped 1|"+long+"|short"; got != want {
		t.Errorf("got %.200s, want %.200s", got, want)
	}
}

// TestFlush checks that Flush waits until everything is written, but not longer than its argument.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := io.Pipe()
		q := newLogQueue(fast, reportDropped)
		q.Flush(time.Hour)
		start := time.Now()
		fmt.Fprintln(q, "one")
		q.Flush(time.Second)
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v for a logReader that stalls, want 1s", waited)
		}
		var got [4]byte
		time.AfterFunc(time.Second, func() { _, _ = io.ReadFull(slow, got[:]) })
		q.Flush(time.Hour)
		if waited := time.Since(start); string(got[:]) != "one\n" || waited != 2*time.Second {
			t.Errorf("read %q after %v, want all of it after 2s", got, waited)
		}
	})
}

// TestStalledReader checks that a stalled reader blocks no writer. When it continues, it gets the
// queued records, whole and in order, then the number of dropped records, then later records.
func TestStalledReader(t *testing.T) {
	r := newLogReader()
	q := newLogQueue(r, reportDropped)
	const total = 20_000
	padding := strings.Repeat("x", 90)
	for round := range 3 {
		before, droppedBefore := 0, q.Dropped()
		if round > 0 {
			before = len(r.lines())
		}
		r.mu.Lock()
		for i := range total {
			fmt.Fprintf(q, "%d %d %s\n", round, i, padding)
		}
		q.Flush(0) // does not wait
		r.mu.Unlock()
		q.Flush(flushing)
		dropped := q.Dropped() - droppedBefore
		fmt.Fprintf(q, "later\n")
		q.Flush(flushing)

		got := r.lines()[before:]
		kept := total - int(dropped)
		if dropped == 0 || kept < total/4 || len(got) != kept+2 {
			t.Fatalf("round %d: %d of %d dropped, %d lines; want some dropped, and all others", round, dropped, total, len(got))
		}
		for i := range kept {
			if want := fmt.Sprintf("%d %d %s", round, i, padding); got[i] != want {
				t.Fatalf("round %d: line %d is %q, want %q", round, i, got[i], want)
			}
		}
		if want := fmt.Sprintf("dropped %d", dropped); got[kept] != want || got[kept+1] != "later" {
			t.Errorf("round %d: at the end %q, want %q and the later one", round, got[kept:], want)
		}
	}
}
