package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/reload"
)

// Watcher keeps a guard's set in step with the files that it was read from. Files that are broken, empty or gone
// change nothing: the last good set stays in force. It is safe for concurrent use.
type Watcher struct{ files *reload.Watcher }

// WatchConfig sets up a [Watcher].
type WatchConfig struct {
	// Logger is told of every change, and of every mistake once. It is slog.Default() unless set.
	Logger *slog.Logger
	// Accept is asked about every set before it is in force, if it is not nil. Its error refuses the set as a mistake in it
	// would.
	Accept func(*Set) error
	// Reloaded is called after every change, after every one that was refused, and when what was refused is gone again;
	// nil is nobody. It must not call the watcher's Reload.
	Reloaded func(Reload)
}

// Reload is what came of looking at the files.
type Reload struct {
	// At is when they were looked at.
	At time.Time
	// Err is why they are not in force: a [*ConfigError], that of the file system, or that of [WatchConfig.Accept]. Nil if
	// they are.
	Err error
	// Changed says that another set is in force since.
	Changed bool
	// Good and Failed count the changes so far that were put in force, and those that were refused.
	Good, Failed int
}

// NewWatcher returns a watcher of a file or a directory, as [Load] reads them. It reads them once and puts them in
// force, so that nothing is missed that changed after they were loaded; if they are wrong the error is that of Load.
func NewWatcher(path string, guard *Guard, c WatchConfig) (*Watcher, error) {
	if path == "" || guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("a watcher needs a path and a guard")}
	}
	var reloaded func(reload.Result)
	if c.Reloaded != nil {
		reloaded = func(r reload.Result) { c.Reloaded(Reload(r)) }
	}
	files, err := reload.New(reload.Config{
		Name:  "policy: the configuration",
		Paths: []string{path},
		Open:  func() ([]reload.File, error) { return openAgain(path) },
		Read: func(files []reload.File) (func(), error) {
			set, err := read(files)
			if err == nil && c.Accept != nil {
				err = c.Accept(set)
			}
			return func() { guard.Swap(set) }, err
		},
		Logger:   c.Logger,
		Reloaded: reloaded,
	})
	if err != nil {
		return nil, err
	}
	return &Watcher{files}, nil
}

// openAgain is open for what can be read again and again: a pipe would have the watcher wait for somebody to write.
func openAgain(path string) ([]reload.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policy: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, mistakeIn(path, "neither a file nor a directory")
	}
	return open(path)
}

// Last returns what came of the last look at the files.
func (w *Watcher) Last() Reload { return Reload(w.files.Last()) }

// Reload looks at the files now, and puts them in force if they have changed and are good.
func (w *Watcher) Reload() Reload { return Reload(w.files.Reload()) }

// Run keeps the guard in step until the context ends, and returns its error.
func (w *Watcher) Run(ctx context.Context) error { return w.files.Run(ctx) }
