// Package eventually helps tests wait for asynchronous events instead of for a fixed time.
package eventually

import (
	"errors"
	"testing"
	"time"
)

const (
	// patience is long because a test machine may be busy. Only a failing test takes that long.
	patience = time.Minute
	pause    = 2 * time.Millisecond
)

// errNot means that a condition is not true.
var errNot = errors.New("not so")

// True waits until a condition is true, and returns how long that took. If it takes too long, the
// test fails with the description, such as "the stream has ended".
func True(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	return Nil(t, what, func() error {
		if ok() {
			return nil
		}
		return errNot
	})
}

// Nil waits until f returns no error, and returns how long that took. Use it instead of [True] if f
// can report what is still missing.
func Nil(t testing.TB, what string, f func() error) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(pause) {
		err := f()
		took := time.Since(start)
		if err == nil {
			return took
		}
		if took > patience {
			t.Fatalf("%s: %v after %v", what, err, patience)
		}
	}
}
