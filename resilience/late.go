package resilience

import (
	"sync"

	"github.com/stint-limiter/stint"
)

// lateAnswer is the answer to a request that was sent and not answered in time. It is the cause of
// the error that the caller gets, so that the fallback can follow what becomes of the request.
type lateAnswer struct {
	cause error // why the caller did not wait

	mu       sync.Mutex
	expected bool // the error was returned before the answer arrived
	arrived  bool
	decision stint.Decision
	err      error
	call     uint64 // in which it came
	follow   func(stint.Decision, error, uint64)
}

// Error implements error.
func (l *lateAnswer) Error() string { return l.cause.Error() }

// Unwrap returns why the caller did not wait.
func (l *lateAnswer) Unwrap() error { return l.cause }

// expect notes that an answer is still wanted, and reports whether it has yet to come.
func (l *lateAnswer) expect(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	l.expected = !l.arrived
	return l.expected
}

// arrive notes the answer, or that there will be none, once. It reports whether it was expected.
func (l *lateAnswer) arrive(d stint.Decision, err error, call uint64) bool {
	l.mu.Lock()
	if l.arrived {
		l.mu.Unlock()
		return false
	}
	l.arrived, l.decision, l.err, l.call = true, d, err, call
	follow, expected := l.follow, l.expected
	l.mu.Unlock()
	if follow != nil {
		follow(d, err, call)
	}
	return expected
}

// answer returns the store's decision if it has come by now.
func (l *lateAnswer) answer() (d stint.Decision, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decision, l.arrived && l.err == nil
}

// whenKnown calls f with what becomes of the request: at once if that is known.
func (l *lateAnswer) whenKnown(f func(stint.Decision, error, uint64)) {
	l.mu.Lock()
	arrived := l.arrived
	if !arrived {
		l.follow = f
	}
	l.mu.Unlock()
	if arrived {
		f(l.decision, l.err, l.call)
	}
}
