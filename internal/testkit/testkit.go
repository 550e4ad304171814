// Package testkit provides helpers for the tests of many packages. They wait for a condition,
// expect a panic, run subtests in bubbles, compare text with a golden file, list the files of the
// repository, capture output that can be read while it is written, serve HTTP/2 without TLS,
// measure memory, and skip tests under the race detector.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// patience is long because a test machine may be busy. Only a failing test waits that long.
	patience = time.Minute
	pause    = 2 * time.Millisecond
)

var errNot = errors.New("not so")

// Eventually waits until ok returns true, and returns how long it waited. After a minute, it fails
// the test with a message that begins with the given description, such as "the stream has ended".
func Eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	return EventuallyNil(t, what, func() error {
		if ok() {
			return nil
		}
		return errNot
	})
}

// EventuallyNil waits until f returns no error, and returns how long it waited. Use it instead of
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

// Panics calls f, which must panic with a string that begins with want.
func Panics(t testing.TB, want string, f func()) {
	t.Helper()
	defer func() {
		if got, _ := recover().(string); !strings.HasPrefix(got, want) {
			t.Errorf("got panic %q, want %q", got, want)
		}
	}()
	f()
}

// InBubble runs f as a subtest in a bubble of [synctest.Test].
func InBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// Golden compares got with the file of the given name in testdata. If update is true, it first
// writes got to the file. Each package passes the value of its -update flag.
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

// Files returns the slash-separated names of the files in the repository with the given root. It
// leaves out Git's own files, and the files in directories named bin and node_modules.
func Files(t testing.TB, root string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && name != ".git": // in a worktree, .git is a file
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// SkipUnderRace skips a test if the race detector is on. Use it in tests that compute a lot and
// share no data, because the race detector makes them several times slower. make test finds these
// tests by this call, which must be their first line, and runs them without the race detector.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("computes much and shares nothing: make test runs it without the race detector")
	}
}

// Must returns a function that returns v, or fails the test if there is an error:
//
//	data := testkit.Must(os.ReadFile(name))(t)
func Must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Opened is like [Must], and closes what was opened when the test ends.
func Opened[C io.Closer](c C, err error) func(testing.TB) C {
	return func(t testing.TB) C {
		t.Helper()
		Must(c, err)(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// HeapInUse collects garbage, and returns how many bytes of the heap are still in use.
func HeapInUse() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds is free after the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// EndingContext is a context that ends when a test sets End.
type EndingContext struct {
	context.Context
	End error
}

// Err implements [context.Context].
func (c *EndingContext) Err() error { return c.End }

// RoundTrip is an [http.RoundTripper] made of a function.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Buffer holds a log, or the output of a process. A test can read it while it is written. The zero
// value is an empty buffer.
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

// Await waits until text was written.
func (b *Buffer) Await(t testing.TB, text string) {
	t.Helper()
	Eventually(t, "written: "+text, func() bool { return strings.Contains(b.String(), text) })
}

// String returns what has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
