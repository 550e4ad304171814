package faults

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/resilience"
)

// witness is an Observer that counts.
type witness struct {
	mu     sync.Mutex
	kinds  map[stint.StoreErrorKind]int // failures of the store, by kind
	calls  int                          // to the store, to decide
	asked  int                          // requests in them
	saved  int                          // decisions that needed none
	causes map[stint.StoreErrorKind]int // of decisions without the store
}

func newWitness() *witness {
	return &witness{kinds: map[stint.StoreErrorKind]int{}, causes: map[stint.StoreErrorKind]int{}}
}

func (w *witness) Observe(_ context.Context, event stint.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *resilience.StoreCall:
		if e.Op == "take" {
			w.calls++
			w.asked += e.Requests
		}
		if e.Err != nil {
			w.kinds[errkind.Of(e.Err)]++
		}
	case *resilience.Decided:
		switch e.Source {
		case "fallback":
			w.causes[errkind.Of(e.Cause)]++
		case "denycache", "lease":
			w.saved++
		}
	}
}

// failed is how many calls to the store failed in that way.
func (w *witness) failed(kind stint.StoreErrorKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[kind]
}

// caused is how many decisions were made without the store for that reason.
func (w *witness) caused(kind stint.StoreErrorKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.causes[kind]
}

// journal is a log that can be asked what was written.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// Write takes one record.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// count is how many lines hold all the words.
func (j *journal) count(words ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "")
}

// request is one unit of some limits.
func request(subject string, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: 1}}}
}

// take asks for one unit, and wants an answer.
func take(r *report, s stint.Store, subject string, limits ...stint.Limit) stint.Decision {
	r.Helper()
	d, err := s.Take(context.Background(), request(subject, limits...))
	if err != nil {
		r.Fatalf("%s: %v", subject, err)
	}
	return d
}

// look asks the store itself what a subject has used: neither the deny cache nor a lease answers
// that, and it charges nothing. It reports whether the store answered.
func look(s stint.Store, subject string, limits ...stint.Limit) (used int64, ok bool) {
	q := request(subject, limits...)
	q.Claims[0].Cost = 0
	d, err := s.Take(context.Background(), q)
	if err != nil || d.Degraded {
		return 0, false
	}
	return d.Usages()[0].Used, true
}

// surely is busiest by what is certain: a call was decided at some time before its answer was here,
// at most as long before as the slowest took. More than that in a window is not for want of a
// precise clock.
func (o *outcome) surely(window time.Duration) int { return o.busiest(window - o.quantile(1)) }
