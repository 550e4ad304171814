// Package reload keeps a program's configuration up to date with its files. If files are broken,
// empty or missing, the last good version stays in force.
package reload

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Watcher].
type Config struct {
	// Name describes the files in logs, as in "policy: the configuration".
	Name string
	// Paths are the files and directories to watch. If Deep is true, directories below them are
	// watched too.
	Paths []string
	Deep  bool
	// If Whole is true, Open always returns a complete set of files, so a missing file has been
	// removed and is not just being replaced.
	Whole bool
	// Open returns the current files.
	Open func() ([]File, error)
	// Read parses the files. It returns a function that puts them in force and describes them. The
	// error has a line for every mistake.
	Read func([]File) (use func() InForce, err error)
	// Logger logs every change, and every mistake once; nil means slog.Default().
	Logger *slog.Logger
	// Reloaded is called after every change, after every refused change, and when a refused change
	// has been undone. It must not call the watcher's Reload. It may be nil.
	Reloaded func(Result)
}

// Result is the result of one check of the files.
type Result struct {
	// At is the time of the check.
	At time.Time
	// Err is the reason why the files are not in force; nil if they are.
	Err error
	// Changed reports whether this check put a change in force.
	Changed bool
	// Good is the number of changes put in force so far, and Failed is the number of changes
	// refused so far.
	Good, Failed int
	// Files lists the files that have changed. It is empty if this check put nothing in force.
	Files []string
	InForce
}

// InForce describes the files that were put in force.
type InForce struct {
	// Fingerprint is the same for files with the same meaning, on any host. It is "" if the files
	// may differ between processes.
	Fingerprint string
	// Changes lists the differences from the files that were in force before.
	Changes []Change
	// Expires is the time at which the files in force become invalid; the zero time means never.
	Expires time.Time
}

// Change is a single difference between two versions of the files.
type Change struct {
	// Text describes the change in a few words, as in "api for enterprise from 500/1m to 50/1m".
	Text string
	// Denies lists the rules that may deny more requests because of the change.
	Denies []Rule
}

// Rule identifies a rule by its tier and its policy. Policy is "" for the limits of the tier
// itself.
type Rule struct{ Tier, Policy string }

const maxTexts = 10

// Texts returns the texts of at most maxTexts changes. If there are more changes, the last text
// states how many are left out.
func (f *InForce) Texts() (texts []string) {
	for i := range f.Changes[:min(len(f.Changes), maxTexts)] {
		texts = append(texts, f.Changes[i].Text)
	}
	if more := len(f.Changes) - maxTexts; more > 0 {
		texts = append(texts, fmt.Sprintf("%d other changes", more))
	}
	return texts
}

// Watcher reloads files, on request and when they change. It is safe for concurrent use.
type Watcher struct {
	c Config

	mu      sync.Mutex        // held during a reload
	good    digest            // digest of the files in force; zero until there are any
	files   map[string]digest // digests of the files in force, by name
	refused digest            // digest of the last refused files; zero if none were refused since the last good ones
	last    atomic.Pointer[Result]
}

// New returns a watcher that has not read the files yet.
func New(c Config) *Watcher {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	w := &Watcher{c: c}
	w.last.Store(&Result{})
	return w
}

// Last returns the result of the last check of the files.
func (w *Watcher) Last() Result { return *w.last.Load() }

// Reload checks the files now. It puts them in force if they have changed and are good. As long as
// no version of the files has been good, Reload returns the error without logging it. The first
// good version does not count as a change.
func (w *Watcher) Reload() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	files, err := w.c.Open()
	if err == nil && !w.c.Whole && w.lost(files) {
		time.Sleep(settle)
		files, err = w.c.Open()
	}
	content := digestOf(files, err)
	r := w.Last()
	r.At, r.Changed, r.Files, r.Changes = time.Now(), false, nil, nil
	begun := w.good != digest{}
	tell := begun
	switch content {
	case w.good:
		if tell = r.Err != nil; tell {
			w.c.Logger.Info(w.c.Name+" was restored to the version in force", "path", w.path())
		}
		w.refused, r.Err = digest{}, nil
	case w.refused: // already logged
		tell = false
	default:
		var use func() InForce
		if err == nil {
			use, err = w.c.Read(files)
		}
		if r.Err = err; err == nil {
			now := digests(files)
			r.InForce, r.Files = use(), different(w.files, now)
			w.good, w.refused, w.files = content, digest{}, now
		}
		switch {
		case !begun:
		case err != nil:
			w.refused = content
			r.Failed++
			w.c.Logger.Error(w.c.Name+" was refused; the last good version stays in force", "path", w.path(), "mistakes",
				strings.Split(err.Error(), "\n"))
		default:
			r.Changed = true
			r.Good++
			w.c.Logger.Info(w.c.Name+" has changed and is in force", "path", w.path(), "files", r.Files, "changes",
				r.Texts())
		}
	}
	w.last.Store(&r)
	if tell && w.c.Reloaded != nil {
		w.c.Reloaded(r)
	}
	return r
}

// settle is the time for which a file may be missing before it counts as removed. Editors rename
// the old file before they write the new one.
const settle = 300 * time.Millisecond

func (w *Watcher) lost(files []File) bool {
	now := digests(files)
	for name := range w.files {
		if _, there := now[name]; !there {
			return true
		}
	}
	return false
}

// different returns the names of files that are new, removed or changed.
func different(was, is map[string]digest) []string {
	all := maps.Clone(is)
	maps.Copy(all, was)
	maps.DeleteFunc(all, func(name string, _ digest) bool { return was[name] == is[name] })
	return slices.Sorted(maps.Keys(all))
}

func digests(files []File) map[string]digest {
	each := make(map[string]digest, len(files))
	for i, f := range files {
		each[f.Name] = digestOf(files[i:i+1], nil)
	}
	return each
}

func (w *Watcher) path() string { return strings.Join(w.c.Paths, ", ") }

type digest [sha256.Size]byte

// digestOf returns the digest of the given files, or of the error if they could not be read.
func digestOf(files []File, err error) digest {
	h := sha256.New()
	add := func(text []byte) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // a hash does not fail
		_, _ = h.Write(text)
	}
	if err != nil {
		add([]byte(err.Error()))
	}
	for _, f := range files {
		add([]byte(f.Name))
		add(f.Text)
	}
	return digest(h.Sum(nil))
}
