// Package testkit holds what tests of many packages use: waiting for a condition, comparing with a
// golden file, a buffer that is read while it is written, a server of HTTP/2 without TLS, and
// skipping under the race detector.
package testkit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	// patience is long because a test machine may be busy. Only a failing test takes that long.
	patience = time.Minute
	pause    = 2 * time.Millisecond
)

var errNot = errors.New("not so")

// Eventually waits until a condition is true, and returns how long that took. If it takes too long,
// the test fails with the description, such as "the stream has ended".
func Eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	return EventuallyNil(t, what, func() error {
		if ok() {
			return nil
		}
		return errNot
	})
}

// EventuallyNil waits until f returns no error, and returns how long that took. Use it instead of
// [Eventually] if f can report what is still missing.
func EventuallyNil(t testing.TB, what string, f func() error) time.Duration {
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

// Golden compares a text with a file in testdata. If update is true, it writes the file first;
// packages have a flag -update for that.
func Golden(t testing.TB, update bool, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test . -update writes it); got:\n%s", name, got)
	}
}

// SkipUnderRace skips a test that computes much and shares nothing: under the race detector it
// takes several times as long. make test finds such tests by this call, which must be their first
// line, and runs them without the race detector.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("computes much and shares nothing: make test runs it without the race detector")
	}
}

// Buffer is a log, or the output of a process, that a test reads while it is written. The zero
// value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
