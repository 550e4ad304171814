package reload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollEvery is how often files are checked without an event: network file systems send none.
	pollEvery = 30 * time.Second
	// settleFor is how long files must be left alone before they are read, and settleAtMost how
	// long that is waited for. Editors and deployments write in several steps.
	settleFor    = 100 * time.Millisecond
	settleAtMost = time.Second
)

// Run looks at the files whenever they change, until the context ends, and returns its error. If no
// files were in force yet and these cannot be, it returns why at once.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	begun := w.good != digest{}
	w.mu.Unlock()
	if !begun {
		if err := w.Reload().Err; err != nil {
			return err
		}
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	warned := false
	for ctx.Err() == nil {
		// A watch is of what the names mean now, so there is a new one for every look. It begins
		// before the look: what changes after that is an event.
		events, err := fsnotify.NewWatcher()
		if err == nil {
			err = w.watch(events)
		}
		if err != nil && !warned {
			warned = true
			w.c.Logger.Warn(w.c.Name+" is polled, because changes cannot be watched", "path", w.path(), "every",
				w.poll, "error", err)
		}
		w.Reload()
		await(ctx, events, poll.C)
		if events != nil {
			_ = events.Close() // nothing hangs on it
		}
	}
	return ctx.Err()
}

// watch watches the directories in which something can happen to the files: those of the paths, the
// paths themselves that are directories, those of symbolic links on the way, and those where links
// lead. What is not there is looked for by polling.
func (w *Watcher) watch(events *fsnotify.Watcher) error {
	var errs []error
	add := func(directory string) {
		if err := events.Add(directory); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, path := range w.c.Paths {
		add(filepath.Dir(path))
		follow(path, add)
		w.directories(path, add)
	}
	return errors.Join(errs...)
}

// directories adds a directory, those where links in it lead, and if the watch is deep those below
// it. Hidden ones are nobody's configuration.
func (w *Watcher) directories(path string, add func(directory string)) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return // a file, or not there
	}
	add(path)
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.IsDir() && w.c.Deep:
			w.directories(name, add)
		case entry.Type()&os.ModeSymlink != 0:
			follow(name, add)
		}
	}
}

// await returns when it is time to look at the files again: some time after an event, when they
// have been left alone; at the next poll; when the context has ended.
func await(ctx context.Context, events *fsnotify.Watcher, poll <-chan time.Time) {
	var changed <-chan fsnotify.Event
	var lost <-chan error
	if events != nil {
		changed, lost = events.Events, events.Errors
	}
	select {
	case <-ctx.Done():
		return
	case <-poll:
		return
	case <-lost: // events, that is
	case <-changed:
	}
	atMost := time.NewTimer(settleAtMost)
	defer atMost.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-atMost.C:
			return
		case <-time.After(settleFor):
			return
		case <-lost:
		case <-changed:
		}
	}
}
