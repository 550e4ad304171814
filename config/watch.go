package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/policy"
)

// Watcher keeps a guard's set up to date with the files that it was read from. Files that are
// broken, empty or gone change nothing: the last good set stays in force. Its fields must not
// change once it is used. Its methods are safe for concurrent use.
type Watcher struct {
	// Path is a file or a directory, as [Load] reads them.
	Path string
	// Guard gets every new set.
	Guard *policy.Guard
	// Logger receives every change, and every mistake once. It is slog.Default() unless set.
	Logger *slog.Logger
	// Accept can refuse a configuration that is good by itself, if it is not nil. Its error is
	// treated as a mistake is.
	Accept func(*Config) error
	// Reloaded is called after every change, after every one that was refused, and when what was
	// refused is gone again; nil is nobody. It must not call the watcher's Reload.
	Reloaded func(Reload)

	mu    sync.Mutex
	files *reload.Watcher // nil until the files were good for the first time
	last  Reload          // until then
}

// Reload is the result of looking at the files.
type Reload struct {
	// At is when they were looked at.
	At time.Time
	// Err is why they are not in force: an [*Error], that of the file system, or that of
	// [Watcher.Accept]. Nil if they are.
	Err error
	// Changed says that another set is in force since.
	Changed bool
	// Good and Failed count the changes so far that were put in force, and those that were refused.
	Good, Failed int
}

// Reload looks at the files now, and puts them in force if they have changed and are good. The
// first time it puts them in force in any case, so that no change is missed since they were loaded;
// that does not count as a change.
func (w *Watcher) Reload() Reload {
	files, first := w.open()
	if files == nil || first {
		return w.Last()
	}
	return Reload(files.Reload())
}

// Last returns the result of the last look at the files.
func (w *Watcher) Last() Reload {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		return w.last
	}
	return Reload(w.files.Last())
}

// Run keeps the guard up to date until the context ends, and returns its error. If the files cannot
// be put in force when it begins, it returns why at once.
func (w *Watcher) Run(ctx context.Context) error {
	files, _ := w.open()
	if files == nil {
		return w.Last().Err
	}
	return files.Run(ctx)
}

// open puts the files in force unless that was done before. It returns nil if they are wrong.
func (w *Watcher) open() (files *reload.Watcher, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files != nil {
		return w.files, false
	}
	var err error
	if w.Path == "" || w.Guard == nil {
		err = &stint.InvalidError{Err: errors.New("a watcher needs a path and a guard")}
	} else {
		w.files, err = w.watch()
	}
	if err != nil {
		w.last = Reload{At: time.Now(), Err: err}
		return nil, true
	}
	return w.files, true
}

func (w *Watcher) watch() (*reload.Watcher, error) {
	var reloaded func(reload.Result)
	if w.Reloaded != nil {
		reloaded = func(r reload.Result) { w.Reloaded(Reload(r)) }
	}
	return reload.New(reload.Config{
		Name:  "config: the configuration",
		Paths: []string{w.Path},
		Open:  func() ([]reload.File, error) { return openAgain(w.Path) },
		Read: func(files []reload.File) (func(), error) {
			config, err := read(files)
			if err == nil && w.Accept != nil {
				err = w.Accept(config)
			}
			return func() { w.Guard.Swap(config.Set) }, err
		},
		Logger:   w.Logger,
		Reloaded: reloaded,
	})
}

// openAgain is open for what can be read again and again: a pipe would have the watcher wait for
// somebody to write.
func openAgain(path string) ([]reload.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("config: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, mistakeIn(path, "neither a file nor a directory")
	}
	return open(path)
}
