package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// queueSize is the maximum size, in bytes, of the records that are waiting to be written. In
	// addition, records of up to queueSize bytes may be in the process of being written. The queue
	// has room for a few thousand records, which a slow reader reads within a few seconds.
	queueSize = 512 << 10
	// pieceSize is the largest number of bytes that a pipe accepts atomically (PIPE_BUF on Linux).
	// If no write is longer, the lines of several processes that share a pipe are not mixed.
	pieceSize = 4096
)

// logQueue is a bounded queue in front of a writer. It prevents a log that cannot be written, such
// as a pipe that is not read or a full disk, from blocking the program. Every Write is one record,
// a line with its line break. Records are written in order. When the queue is full, it drops new
// records until the waiting ones are written. It then writes one record with the number of dropped
// records. It is safe for concurrent use.
type logQueue struct {
	to     io.Writer
	report func(to io.Writer, dropped int64)

	mu      sync.Mutex // never held while to.Write runs
	waiting []byte
	writing []byte // used only by the writing goroutine
	busy    bool   // whether there is a writing goroutine
	full    bool   // records are dropped until nothing is waiting
	dropped int64
	// unreported is the number of records dropped since the last report.
	unreported int64
	idle       chan struct{} // closed when everything is written; nil unless a Flush waits for it

	// torn reports whether the last write ended in the middle of a line. Only the writing goroutine
	// uses it.
	torn bool
}

// newLogQueue returns a log queue in front of a writer. It calls report to write a record with the
// number of dropped records.
func newLogQueue(to io.Writer, report func(to io.Writer, dropped int64)) *logQueue {
	return &logQueue{to: to, report: report, waiting: make([]byte, 0, queueSize), writing: make([]byte, 0, queueSize)}
}

// Write implements [io.Writer]. It copies the record, or drops it if the queue is full. It never
// fails.
func (w *logQueue) Write(record []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full = w.full || len(record) > cap(w.waiting)-len(w.waiting); w.full {
		w.drop(1)
	} else {
		w.waiting = append(w.waiting, record...)
	}
	if !w.busy {
		w.busy = true
		go w.run() // ends when everything is written
	}
	return len(record), nil
}

// Dropped returns how many records have been dropped so far.
func (w *logQueue) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Flush waits until everything is written, but not longer than atMost.
func (w *logQueue) Flush(atMost time.Duration) {
	w.mu.Lock()
	if !w.busy {
		w.mu.Unlock()
		return
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	w.mu.Unlock()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

func (w *logQueue) drop(records int64) {
	w.dropped += records
	w.unreported += records
}

func (w *logQueue) run() {
	for {
		unreported, ok := w.next()
		if !ok {
			return
		}
		if unreported > 0 {
			var report bytes.Buffer
			w.report(&report, unreported)
			if w.write(report.Bytes()) > 0 {
				w.mu.Lock()
				w.unreported += unreported
				w.mu.Unlock()
			}
		}
		if lost := w.write(w.writing); lost > 0 {
			w.mu.Lock()
			w.drop(lost)
			w.mu.Unlock()
		}
	}
}

// next moves the waiting records to w.writing, and returns the number of dropped records to report
// before them. It returns false if there is nothing to write or report.
func (w *logQueue) next() (unreported int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// If the queue is full, the dropped records are newer than the waiting ones, so they are
	// reported when nothing is waiting. Otherwise, the dropped records are those that could not be
	// written. They are older than the waiting records, so they are reported first.
	if w.full == (len(w.waiting) == 0) {
		unreported, w.unreported, w.full = w.unreported, 0, false
	}
	if len(w.waiting) == 0 && unreported == 0 {
		w.busy = false
		if w.idle != nil {
			close(w.idle)
			w.idle = nil
		}
		return 0, false
	}
	w.waiting, w.writing = w.writing[:0], w.waiting
	return unreported, true
}

// write writes lines, several at a time if they are short. It returns how many lines it could not
// write.
func (w *logQueue) write(lines []byte) (lost int64) {
	for len(lines) > 0 {
		end := bytes.LastIndexByte(lines[:min(pieceSize, len(lines))], '\n') + 1
		if end == 0 { // the first line is longer than pieceSize
			end = bytes.IndexByte(lines, '\n') + 1
		}
		if end == 0 { // the rest has no line break
			end = len(lines)
		}
		piece := lines[:end]
		lines = lines[end:]
		if w.torn {
			if n, _ := w.to.Write([]byte{'\n'}); n == 1 {
				w.torn = false
			}
		}
		n, err := w.to.Write(piece)
		if err != nil {
			w.torn = w.torn || n > 0 && piece[n-1] != '\n'
			lost += int64(max(1, bytes.Count(piece[n:], []byte{'\n'})))
		}
	}
	return lost
}
