package config

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/changes"
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
	// Logger receives every change, and every mistake and warning once; slog.Default() unless set.
	Logger *slog.Logger
	// Accept can refuse a configuration that is good by itself, if it is not nil. Its error is
	// treated as a mistake is.
	Accept func(*Config) error
	// Reloaded is called after every change, after every one that was refused, and when what was
	// refused is gone again; nil is nobody. It must not call the watcher's Reload.
	Reloaded func(Reload)

	once  sync.Once
	files *reload.Watcher // see watch
}

// Reload is the result of looking at the files. At is when that was. Err is why they are not in
// force: an [*Error], that of the file system, or that of [Watcher.Accept]; nil if they are.
// Changed says that another set is in force since. Good and Failed count the changes so far that
// were put in force, and those that were refused. Files are those that differ since the last
// change, Changes say what is different, for people, and Fingerprint is the same for configurations
// that decide alike, on any host.
type Reload = reload.Result

// Reload looks at the files now, and puts them in force if they have changed and are good. The
// first time it puts them in force in any case, so that no change is missed since they were loaded;
// that does not count as a change.
func (w *Watcher) Reload() Reload { return w.watch().Reload() }

// Last returns the result of the last look at the files.
func (w *Watcher) Last() Reload { return w.watch().Last() }

// Run keeps the guard up to date until the context ends, and returns its error. If the files cannot
// be put in force when it begins, it returns why at once.
func (w *Watcher) Run(ctx context.Context) error { return w.watch().Run(ctx) }

func (w *Watcher) watch() *reload.Watcher {
	w.once.Do(func() {
		w.files = reload.New(reload.Config{
			Name:     "config: the configuration",
			Paths:    []string{w.Path},
			Open:     w.open,
			Read:     w.read,
			Logger:   w.Logger,
			Reloaded: w.Reloaded,
		})
	})
	return w.files
}

func (w *Watcher) read(files []reload.File) (use func() reload.InForce, err error) {
	config, err := read(files)
	if err == nil && w.Accept != nil {
		err = w.Accept(config)
	}
	return func() reload.InForce {
		was := w.Guard.Set()
		w.Guard.Swap(config.Set)
		for _, m := range config.Warnings {
			cmp.Or(w.Logger, slog.Default()).Warn("config: "+m.Message, "file", m.File, "line", m.Line, "key", m.Key)
		}
		return reload.InForce{Fingerprint: changes.Fingerprint(config.Set), Changes: changes.Sets(was, config.Set)}
	}, err
}

// open opens the files. They must be such that can be read again and again: a pipe would have the
// watcher wait for somebody to write.
func (w *Watcher) open() ([]reload.File, error) {
	if w.Path == "" || w.Guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("a watcher needs a path and a guard")}
	}
	if info, err := os.Stat(w.Path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, mistakeIn(w.Path, "neither a file nor a directory")
	}
	return open(w.Path)
}
