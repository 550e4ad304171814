package resilience

import (
	"sync"

	"github.com/stint-limiter/stint"
)

// late is a request that was sent and not answered in time. It is the cause of the error
// that its caller gets, so that whoever decides instead can follow what becomes of it.
type late struct {
	cause error // why the caller did not wait

	mu       sync.Mutex
	expected bool // the error was returned before the answer came
	came     bool
	decision stint.Decision
	err      error
	follow   func(stint.Decision, error)
}

// Error implements error.
func (l *late) Error() string { return l.cause.Error() }

// Unwrap returns why the caller did not wait.
func (l *late) Unwrap() error { return l.cause }

// expect notes that an answer is still wanted, and reports whether it has yet to come.
func (l *late) expect(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	l.expected = !l.came
	return l.expected
}

// come notes the answer, or that there will be none, once. It reports whether it was expected.
func (l *late) come(d stint.Decision, err error) bool {
	l.mu.Lock()
	if l.came {
		l.mu.Unlock()
		return false
	}
	l.came, l.decision, l.err = true, d, err
	follow, expected := l.follow, l.expected
	l.mu.Unlock()
	if follow != nil {
		follow(d, err)
	}
	return expected
}

// answer returns the store's decision if it has come by now.
func (l *late) answer() (d stint.Decision, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decision, l.came && l.err == nil
}

// then calls f with what becomes of the request: at once if that is known.
func (l *late) then(f func(stint.Decision, error)) {
	l.mu.Lock()
	came := l.came
	if !came {
		l.follow = f
	}
	l.mu.Unlock()
	if came {
		f(l.decision, l.err)
	}
}
