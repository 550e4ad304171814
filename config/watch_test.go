package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/changes"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// TestRefusedChange is logged and reported with every mistake.
func TestRefusedChange(t *testing.T) {
	file := writeFile(t, rulesOf(1001))
	var log bytes.Buffer
	var told []Reload
	w := watch(t, file, &Watcher{
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Reloaded: func(r Reload) { told = append(told, r) },
	}, false)
	w.put(file, "tiers:\n  - {name: all, identity: ip, limits: 10/1w}\nstroe: {}\n")
	w.Reload()
	for _, want := range []string{"level=ERROR", "10/1w", "stroe"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("logged %q, want %s in it", &log, want)
		}
	}
	if len(told) != 1 || len(mistaken(t, told[0].Err).Mistakes) != 2 {
		t.Errorf("told %+v, want two mistakes", told)
	}
}

func TestReloadFromManyGoroutines(t *testing.T) {
	file := writeFile(t, rulesOf(1001))
	w := watch(t, file, &Watcher{}, true)
	w.put(file+".new", rulesOf(1002))
	w.do(os.Rename(file+".new", file))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			w.Reload()
			_ = w.limit()
		})
	}
	all.Wait()
	if r := w.Last(); r.Good != 1 || r.Failed != 0 {
		t.Errorf("got %+v, want one change", r)
	}
}

func TestWatcherChecks(t *testing.T) {
	file := writeFile(t, rulesOf(1001))
	w := watch(t, file, &Watcher{}, false)
	if err := (&Watcher{Path: "", Guard: w.guard}).Reload().Err; !errors.As(err, new(*stint.InvalidError)) {
		t.Errorf("without a path: got %v", err)
	}
	if err := (&Watcher{Path: file, Guard: nil}).Reload().Err; !errors.As(err, new(*stint.InvalidError)) {
		t.Errorf("without a guard: got %v", err)
	}
	// A change between Load and NewWatcher is not missed.
	w.put(file, rulesOf(1002))
	if err := (&Watcher{Path: file, Guard: w.guard}).Reload().Err; err != nil || w.limit() != 1002 {
		t.Errorf("got a limit of %d, %v; want 1002", w.limit(), err)
	}
}

// TestAccept keeps the last good set in force if Accept rejects a set.
func TestAccept(t *testing.T) {
	file := writeFile(t, rulesOf(1001))
	objection := errors.New("not that one")
	w := watch(t, file, &Watcher{
		Accept: func(c *Config) error {
			if c.Set.Rules()[0].Limits[0].Max == 1002 {
				return objection
			}
			return nil
		},
	}, false)
	for _, step := range []struct {
		written, limit int64
		err            error
	}{{1002, 1001, objection}, {1003, 1003, nil}} {
		w.put(file, rulesOf(int(step.written)))
		if r := w.Reload(); !errors.Is(r.Err, step.err) || w.limit() != step.limit {
			t.Errorf("%d: got a limit of %d, %v; want %d, %v", step.written, w.limit(), r.Err, step.limit, step.err)
		}
	}
}

// rulesOf is a configuration of n requests per minute.
func rulesOf(n int) string {
	return fmt.Sprintf("tiers:\n  - {name: all, identity: ip, limits: %d/1m}\n", n)
}

// broken are contents that are no configuration.
var broken = map[string]string{
	"broken":    "tiers:\n  - {name: all, identity: ip, limits: [}\n",
	"cut short": "tiers:\n  - name: all\n    ident",
	"empty":     "",
	"comments":  "# tiers:\n",
	"no rules":  "tiers: []\n",
	"duplicate": rulesOf(1) + rulesOf(2),
	// The rules come last: half of it, while it is written, is none.
	"oversized": strings.Repeat("# padding\n", 1<<17) + rulesOf(1),
	"mistaken":  "tiers:\n  - {name: all, identity: ip, limits: 10/1w}\n",
	"binary":    "\x00\xff\xfe",
}

// watched is a guard over files that are watched.
type watched struct {
	*Watcher
	guard *policy.Guard
	t     *testing.T
}

// watch loads a configuration and watches it until the test ends, if run is set.
func watch(t *testing.T, path string, w *Watcher, run bool) *watched {
	t.Helper()
	config := testkit.Must(Load(path))(t)
	store := testkit.Must(memorystore.New(memorystore.Config{}))(t)
	t.Cleanup(func() { _ = store.Close() })
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	guard := testkit.Must(policy.NewGuard(store, config.Set, policy.GuardConfig{Logger: w.Logger}))(t)
	w.Path, w.Guard = path, guard
	if r := w.Reload(); r.Err != nil {
		t.Fatal(r.Err)
	}
	if run {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
	return &watched{w, guard, t}
}

// limit returns the limit that requests are judged by.
func (w *watched) limit() int64 {
	w.t.Helper()
	var v policy.Verdict
	if err := w.guard.Decide(context.Background(),
		&policy.Input{Method: "GET", Path: "/", Peer: netip.MustParseAddr("192.0.2.1")}, &v); err != nil {
		w.t.Fatal(err)
	}
	return v.Decision.Decisive().Limit.Max
}

// until waits for something to come true.
func (w *watched) until(what string, ok func() bool) {
	w.t.Helper()
	testkit.EventuallyNil(w.t, what, func() error {
		if ok() {
			return nil
		}
		return fmt.Errorf("not so; %+v", w.Last())
	})
}

// obeys waits until requests are judged by a limit of n, and Last says so.
func (w *watched) obeys(n int64) {
	w.t.Helper()
	w.until(fmt.Sprintf("a limit of %d", n), func() bool {
		last := w.Last()
		return w.limit() == n && last.Err == nil && last.InForce.Fingerprint == changes.Fingerprint(w.guard.Set())
	})
}

// refuses makes a change that is refused, while the limit of n stays in force.
func (w *watched) refuses(n int64, change func()) {
	w.t.Helper()
	before := w.Last()
	change()
	w.until("refused", func() bool { return w.Last().Failed > before.Failed })
	if got := w.limit(); got != n {
		w.t.Errorf("after a change that was refused the limit is %d, want %d", got, n)
	}
	if r := w.Last(); r.Err == nil || r.Changed || r.Good != before.Good {
		w.t.Errorf("got %+v, want an error", r)
	}
}

func (w *watched) put(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestF14 changes the files of a running guard in all the wrong ways, and then in a right one.
func TestF14(t *testing.T) {
	file := writeFile(t, rulesOf(1001))
	w := watch(t, file, &Watcher{}, true)
	for _, text := range broken {
		w.put(file+".new", text)
		w.refuses(1001, func() { w.do(os.Rename(file+".new", file)) })
	}
	w.refuses(1001, func() { w.do(os.Remove(file)) })
	if err := w.Last().Err; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	w.put(file, rulesOf(1001)) // as it was
	w.until("well again", func() bool { return w.Last().Err == nil })
	w.put(file, rulesOf(1002))
	w.obeys(1002)
	if r := w.Last(); r.Good != 1 {
		t.Errorf("got %+v, want one good change", r)
	}
	for _, path := range []string{"", "a.yaml"} { // a ConfigMap
		directory := t.TempDir()
		write(t, directory, map[string]string{"..1/a.yaml": rulesOf(1001), "..data": "-> ..1", "a.yaml": "-> ..data/a.yaml"})
		w := watch(t, filepath.Join(directory, path), &Watcher{}, true)
		swap := func(n int, text string) { // as kubelet does
			version := fmt.Sprintf("..%d", n)
			write(t, directory, map[string]string{version + "/a.yaml": text, "..data_tmp": "-> " + version})
			w.do(os.Rename(filepath.Join(directory, "..data_tmp"), filepath.Join(directory, "..data")))
			w.do(os.RemoveAll(filepath.Join(directory, fmt.Sprintf("..%d", n-1))))
		}
		swap(2, rulesOf(1002))
		w.obeys(1002)
		w.refuses(1002, func() { swap(3, "tiers: [") })
		swap(4, rulesOf(1004))
		w.obeys(1004)
	}
}
