package config

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
)

// TestReload tells once of everything that happens, and nothing of what does not.
func TestReload(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "stint.yaml")
	write(t, directory, map[string]string{"stint.yaml": rulesOf(1001)})
	var log bytes.Buffer
	var told []Reload
	w := watch(t, file, &Watcher{
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Reloaded: func(r Reload) { told = append(told, r) },
	}, false)

	mistakes := "tiers:\n  - {name: all, identity: ip, limits: 10/1w}\nstroe: {}\n"
	steps := []struct {
		text    string
		limit   int64
		changed bool
		wrong   bool
		good    int
		failed  int
		told    int
		level   string // of the line that is logged, if one is
	}{
		{rulesOf(1001), 1001, false, false, 0, 0, 0, ""},
		{rulesOf(1002), 1002, true, false, 1, 0, 1, "INFO"},
		{rulesOf(1002), 1002, false, false, 1, 0, 1, ""},
		{mistakes, 1002, false, true, 1, 1, 2, "ERROR"},
		{mistakes, 1002, false, true, 1, 1, 2, ""},
		{"", 1002, false, true, 1, 2, 3, "ERROR"},
		{rulesOf(1002), 1002, false, false, 1, 2, 4, "INFO"},
		{mistakes, 1002, false, true, 1, 3, 5, "ERROR"},
		{rulesOf(1003), 1003, true, false, 2, 3, 6, "INFO"},
	}
	for i, s := range steps {
		log.Reset()
		w.put(file, s.text)
		r := w.Reload()
		if !reflect.DeepEqual(r, w.Last()) {
			t.Errorf("step %d: Last is not what Reload returned", i)
		}
		if w.limit() != s.limit || r.Changed != s.changed || (r.Err != nil) != s.wrong || r.Good != s.good ||
			r.Failed != s.failed || len(told) != s.told {
			t.Errorf("step %d: got a limit of %d, %+v, told %d times; want %+v", i, w.limit(), r, len(told), s)
		}
		line := log.String()
		if want := "level=" + s.level; s.level == "" && line != "" || s.level != "" &&
			(strings.Count(line, "\n") != 1 || !strings.Contains(line, want)) {
			t.Errorf("step %d: logged %q, want %q", i, line, s.level)
		}
		if s.text == mistakes && s.level != "" &&
			(!strings.Contains(line, "10/1w") || !strings.Contains(line, "stroe")) {
			t.Errorf("step %d: logged %q, want every mistake", i, line)
		}
	}
	var config *Error
	if !errors.As(told[1].Err, &config) || len(config.Mistakes) != 2 {
		t.Errorf("told %v, want two mistakes", told[1].Err)
	}
}

func TestReloadFromManyGoroutines(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "stint.yaml")
	write(t, directory, map[string]string{"stint.yaml": rulesOf(1001)})
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
	directory := t.TempDir()
	file := filepath.Join(directory, "stint.yaml")
	write(t, directory, map[string]string{"stint.yaml": rulesOf(1001), "wrong.yaml": "tiers: []\n"})
	w := watch(t, file, &Watcher{}, false)
	var invalid *stint.InvalidError
	if err := (&Watcher{Path: "", Guard: w.guard}).Reload().Err; !errors.As(err, &invalid) {
		t.Errorf("without a path: got %v", err)
	}
	if err := (&Watcher{Path: file, Guard: nil}).Reload().Err; !errors.As(err, &invalid) {
		t.Errorf("without a guard: got %v", err)
	}
	var config *Error
	if err := (&Watcher{Path: filepath.Join(directory, "wrong.yaml"), Guard: w.guard}).Reload().Err; !errors.As(
		err, &config) {
		t.Errorf("of a wrong file: got %v", err)
	}
	if err := (&Watcher{Path: filepath.Join(directory, "gone.yaml"), Guard: w.guard}).Reload().Err; !errors.Is(
		err, fs.ErrNotExist) {
		t.Errorf("of no file: got %v", err)
	}
	// A change between Load and NewWatcher is not missed.
	w.put(file, rulesOf(1002))
	if err := (&Watcher{Path: file, Guard: w.guard}).Reload().Err; err != nil || w.limit() != 1002 {
		t.Errorf("got a limit of %d, %v; want 1002", w.limit(), err)
	}
}

// TestAccept keeps the last good set in force if Accept rejects a set.
func TestAccept(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "stint.yaml")
	write(t, directory, map[string]string{"stint.yaml": rulesOf(1001)})
	objection := errors.New("not that one")
	w := watch(t, file, &Watcher{
		Logger: slog.New(slog.DiscardHandler),
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
