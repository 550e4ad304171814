package policy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/stint-limiter/stint"
)

// Times of a [Watcher].
const (
	// pollEvery is how often files are looked at without being told: network file systems and bind mounts tell nothing.
	pollEvery = 30 * time.Second
	// settleFor is how long files must be left alone before they are read, and settleAtMost how long that is waited for.
	// Editors and deployments write in several steps.
	settleFor    = 100 * time.Millisecond
	settleAtMost = time.Second
)

// Watcher keeps a guard's set in step with the files that it was read from. Files that are broken, empty or gone
// change nothing: the last good set stays in force. It is safe for concurrent use.
type Watcher struct {
	path  string
	guard *Guard
	c     WatchConfig
	poll  time.Duration

	mu      sync.Mutex // one reload at a time
	good    digest     // of the files in force
	refused digest     // of the files that were refused last; zero if none were since the last good ones
	last    atomic.Pointer[Reload]
}

// WatchConfig sets up a [Watcher].
type WatchConfig struct {
	// Logger is told of every change, and of every mistake once. It is slog.Default() unless set.
	Logger *slog.Logger
	// Reloaded is called after every change, and after every one that was refused; nil is nobody. It must not call
	// the watcher's Reload.
	Reloaded func(Reload)
}

// Reload is what came of looking at the files.
type Reload struct {
	// At is when they were looked at.
	At time.Time
	// Err is why they are not in force: a [*ConfigError], or that of the file system. Nil if they are.
	Err error
	// Changed says that another set is in force since.
	Changed bool
	// Good and Failed count the changes so far that were put in force, and those that were refused.
	Good, Failed int
}

// digest tells contents apart.
type digest [sha256.Size]byte

// NewWatcher returns a watcher of a file or a directory, as [Load] reads them. It reads them once and puts them in
// force, so that nothing is missed that changed after they were loaded; if they are wrong the error is that of Load.
func NewWatcher(path string, guard *Guard, c WatchConfig) (*Watcher, error) {
	if path == "" || guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("a watcher needs a path and a guard")}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	files, err := open(path)
	if err != nil {
		return nil, err
	}
	set, err := read(files)
	if err != nil {
		return nil, err
	}
	guard.Swap(set)
	w := &Watcher{path: path, guard: guard, c: c, poll: pollEvery, good: digestOf(files, nil)}
	w.last.Store(&Reload{At: time.Now()})
	return w, nil
}

// Last returns what came of the last look at the files.
func (w *Watcher) Last() Reload { return *w.last.Load() }

// Reload looks at the files now, and puts them in force if they have changed and are good.
func (w *Watcher) Reload() Reload {
	w.mu.Lock()
	defer w.mu.Unlock()
	files, err := open(w.path)
	content := digestOf(files, err)
	r := w.Last()
	r.At, r.Changed = time.Now(), false
	switch content {
	case w.good:
		if r.Err != nil {
			w.c.Logger.Info("policy: the configuration is again as it was", "path", w.path)
		}
		w.refused, r.Err = digest{}, nil
		w.last.Store(&r)
		return r
	case w.refused: // said already
		w.last.Store(&r)
		return r
	}
	var set *Set
	if err == nil {
		set, err = read(files)
	}
	if r.Err = err; err != nil {
		w.refused = content
		r.Failed++
		w.c.Logger.Error("policy: the configuration is refused, the last good one stays in force", "path", w.path, "mistakes", mistakesOf(err))
	} else {
		w.good, w.refused = content, digest{}
		w.guard.Swap(set)
		r.Changed = true
		r.Good++
		w.c.Logger.Info("policy: the configuration has changed and is in force", "path", w.path)
	}
	w.last.Store(&r)
	if w.c.Reloaded != nil {
		w.c.Reloaded(r)
	}
	return r
}

// Run keeps the guard in step until the context ends, and returns its error.
func (w *Watcher) Run(ctx context.Context) error {
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	told := false
	for ctx.Err() == nil {
		// A watch is of what the names mean now, so there is a new one for every look. It begins before the look: what
		// changes after that is an event.
		events, err := fsnotify.NewWatcher()
		if err == nil {
			err = w.watch(events)
		}
		if err != nil && !told {
			told = true
			w.c.Logger.Warn("policy: changes of the configuration are not notified of, only looked for", "path", w.path, "every", w.poll, "error", err)
		}
		w.Reload()
		w.await(ctx, events, poll.C)
		if events != nil {
			_ = events.Close() // nothing hangs on it
		}
	}
	return ctx.Err()
}

// watch watches the directories in which something can happen to the configuration: that of the path, the path itself if
// it is one, and those where symbolic links lead. A directory that is not there is looked for by polling.
func (w *Watcher) watch(events *fsnotify.Watcher) error {
	names := []string{w.path}
	directories := []string{filepath.Dir(w.path)}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		directories = append(directories, w.path)
		if inside, err := filesIn(w.path); err == nil {
			names = append(names, inside...)
		}
	}
	for _, name := range names {
		if target, err := filepath.EvalSymlinks(name); err == nil {
			directories = append(directories, filepath.Dir(target))
		}
	}
	var errs []error
	for _, directory := range directories {
		if err := events.Add(directory); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// await returns when it is time to look at the files again: some time after an event, when they have been left alone;
// at the next poll; when the context has ended.
func (w *Watcher) await(ctx context.Context, events *fsnotify.Watcher, poll <-chan time.Time) {
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

// digestOf returns the digest of files, or of the reason that there are none.
func digestOf(files []file, err error) digest {
	h := sha256.New()
	add := func(text []byte) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // a hash does not fail
		_, _ = h.Write(text)
	}
	if err != nil {
		add([]byte(err.Error()))
	}
	for _, f := range files {
		add([]byte(f.name))
		add(f.text)
	}
	return digest(h.Sum(nil))
}

// mistakesOf returns the mistakes one by one, for a log.
func mistakesOf(err error) []string {
	var e *ConfigError
	if errors.As(err, &e) {
		return e.lines()
	}
	return []string{err.Error()}
}
