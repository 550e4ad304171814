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
	// pollEvery is the interval between checks if there are no events. Network file systems send
	// none.
	pollEvery = 30 * time.Second
	// settleFor is the time for which files must be unchanged before they are read, because editors
	// and deployments write in several steps. settleAtMost is the maximum time to wait for that.
	settleFor    = 100 * time.Millisecond
	settleAtMost = time.Second
)

// Run reloads the files when they change, until the context ends, and returns the context's error.
// If no files are in force yet and the current ones are invalid, it returns their error at once.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	begun := w.good != digest{}
	w.mu.Unlock()
	if !begun {
		if err := w.Reload().Err; err != nil {
			return err
		}
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	warned := false
	for ctx.Err() == nil {
		// A watch covers only what the names refer to now, so every check needs a new watch. The
		// watch begins before the check, so that it sees every later change.
		events, err := fsnotify.NewWatcher()
		if err == nil {
			err = w.watch(events)
		}
		if err != nil && !warned {
			warned = true
			w.c.Logger.Warn(w.c.Name+" is polled, because changes cannot be watched", "path", w.path(), "every",
				pollEvery, "error", err)
		}
		w.Reload()
		await(ctx, events, poll.C)
		if events != nil {
			_ = events.Close()
		}
	}
	return ctx.Err()
}

// watch watches the directories in which files can change: the parents of the paths, the paths that
// are directories, the directories of symbolic links on the way, and the directories of the targets
// of these links. It skips directories that do not exist. If these are created later, Run finds
// them by polling.
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

// directories calls add for a directory, for the directories of the targets of links in it (see
// [follow]) and, if the watch is deep, for the directories below it. It skips hidden entries,
// because they are never part of a configuration.
func (w *Watcher) directories(path string, add func(directory string)) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return // path is a file or does not exist
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

// await waits until the next check is due. After an event, it waits until files have been unchanged
// for settleFor, but no longer than settleAtMost. Without an event, it waits until the next poll.
// It also returns when the context ends.
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
	case <-lost:
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
