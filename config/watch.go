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

// Watcher keeps the policy set of a guard up to date with the files at Path. If files are invalid,
// empty or missing, the last valid set stays in force. The fields must not be changed after first
// use. The methods are safe for concurrent use.
type Watcher struct {
	// Path is a file or a directory, as in [Load].
	Path string
	// Guard is the guard whose set is replaced.
	Guard *policy.Guard
	// Logger logs every change, and every mistake and warning once; nil means slog.Default().
	Logger *slog.Logger
	// Accept can reject a valid configuration. Its error is treated like a mistake. It may be nil.
	Accept func(*Config) error
	// Reloaded is called after every change, after every rejected change, and when a rejected
	// change is undone. It must not call the watcher's Reload. It may be nil.
	Reloaded func(Reload)

	once  sync.Once
	files *reload.Watcher // made by watch
}

// Reload is the result of checking the files. At is the time of the check. Err is nil if the files
// are in force. Otherwise it is the reason why they are not: an [*Error], a file system error, or
// the error of [Watcher.Accept]. Changed reports whether this check put a new set in force. Good is
// the number of changes put in force so far, and Failed is the number of changes rejected. Files
// lists the changed files that this check put in force, and Changes describes the differences.
// Fingerprint is a hash of the set. It is the same on every host.
type Reload = reload.Result

// Reload checks the files now. It puts them in force if they have changed and are valid. The first
// call puts them in force even if they have not changed, because the guard's set may be from older
// files. That does not count as a change.
func (w *Watcher) Reload() Reload { return w.watch().Reload() }

// Last returns the result of the last check of the files.
func (w *Watcher) Last() Reload { return w.watch().Last() }

// Run keeps the guard up to date until the context ends, and then returns the context's error. If
// no files are in force yet and the current ones cannot be put in force, it returns the reason at
// once.
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
		_ = w.Guard.Replace(config.Set) // fails only for a set that was not made by policy.New
		for _, m := range config.Warnings {
			cmp.Or(w.Logger, slog.Default()).Warn("config: "+m.Message, "file", m.File, "line", m.Line, "key", m.Key)
		}
		return reload.InForce{Fingerprint: changes.Fingerprint(config.Set), Changes: changes.Sets(was, config.Set)}
	}, err
}

// open opens the files. The path must be a directory or a regular file, which can be read
// repeatedly. If it were a pipe, the watcher would block until another process writes.
func (w *Watcher) open() ([]reload.File, error) {
	if w.Path == "" || w.Guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("a watcher needs a path and a guard")}
	}
	if info, err := os.Stat(w.Path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, mistakeIn(w.Path, "neither a file nor a directory")
	}
	return open(w.Path)
}
