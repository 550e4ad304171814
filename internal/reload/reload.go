// Package reload keeps what a program uses in sync with the files that it was read from. Files that
// are broken, empty or missing change nothing: the last good version stays in force.
package reload

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what is read from where, and what is called after a change.
type Config struct {
	// Name is what is read, for logs: "policy: the configuration".
	Name string
	// Paths are the files and directories to watch, and if Deep what is below them.
	Paths []string
	Deep  bool
	// Whole says that Open always returns all files, so that one that is missing is gone, and not
	// being replaced.
	Whole bool
	// Open returns the files as they are now.
	Open func() ([]File, error)
	// Read returns what puts the files in force, and says what that is. Its error has a line for
	// every mistake.
	Read func([]File) (use func() InForce, err error)
	// Logger logs every change, and every mistake once. It is slog.Default() unless set.
	Logger *slog.Logger
	// Reloaded is called after every change, after every one that was refused, and when what was
	// refused is gone again; nil is nobody. It must not call the watcher's Reload.
	Reloaded func(Result)
}

// Result is what came of looking at the files.
type Result struct {
	// At is when they were looked at.
	At time.Time
	// Err is why they are not in force; nil if they are.
	Err error
	// Changed says that something else is in force since.
	Changed bool
	// Good and Failed count the changes so far that were put in force, and those that were refused.
	Good, Failed int
	// Files are those that are different since the last change, and InForce is what they hold.
	Files []string
	InForce
}

// InForce is what files that were put in force hold.
type InForce struct {
	// Fingerprint is the same for files that mean the same, on any host. It is "" for what may
	// differ from process to process.
	Fingerprint string
	// Changes say what is different since, for people. They are none the first time.
	Changes []Change
	// Expires is when what is in force ends to be valid; zero is never.
	Expires time.Time
}

// Change is something that is different.
type Change struct {
	// Text is the change in a few words: "api for enterprise from 500/1m to 50/1m".
	Text string
	// Denies are the rules that may deny more since.
	Denies []Rule
}

// Rule is a tier and a policy; the policy is "" for the limits of the tier.
type Rule struct{ Tier, Policy string }

// maxTexts is how many changes are put in words.
const maxTexts = 10

// Texts returns the changes in words: the first ones, and how many there are beside them.
func (f *InForce) Texts() (texts []string) {
	for i := range f.Changes[:min(len(f.Changes), maxTexts)] {
		texts = append(texts, f.Changes[i].Text)
	}
	if more := len(f.Changes) - maxTexts; more > 0 {
		texts = append(texts, fmt.Sprintf("%d other changes", more))
	}
	return texts
}

// Watcher looks at files, when asked to and when they change. It is safe for concurrent use.
type Watcher struct {
	c    Config
	poll time.Duration

	mu      sync.Mutex        // one reload at a time
	good    digest            // of the files in force; zero until there are any
	files   map[string]digest // those, by name
	refused digest            // of the files that were refused last; zero if none were since the last good ones
	last    atomic.Pointer[Result]
}

// New returns a watcher of files. It has not looked at them yet.
func New(c Config) *Watcher {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	w := &Watcher{c: c, poll: pollEvery}
	w.last.Store(&Result{})
	return w
}

// Last returns what came of the last look at the files.
func (w *Watcher) Last() Result { return *w.last.Load() }

// Reload looks at the files now, and puts them in force if they have changed and are good. Until
// files were good for the first time, their error is returned and nothing else is done about them;
// and that time is not a change.
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
			w.c.Logger.Info(w.c.Name+" is again as it was", "path", w.path())
		}
		w.refused, r.Err = digest{}, nil
	case w.refused: // logged already
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
			w.c.Logger.Error(w.c.Name+" is refused, the last good one stays in force", "path", w.path(), "mistakes",
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

// settle is how long a file that was there may be away before it is believed to be gone: editors
// rename the old one before they write the new one.
const settle = 300 * time.Millisecond

// lost reports whether a file in force is not there any more.
func (w *Watcher) lost(files []File) bool {
	now := digests(files)
	for name := range w.files {
		if _, there := now[name]; !there {
			return true
		}
	}
	return false
}

// different returns the names of the files that are new, gone or have another content.
func different(was, is map[string]digest) (names []string) {
	for name := range is {
		if was[name] != is[name] {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, there := is[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// digests returns the digest of each file, by name.
func digests(files []File) map[string]digest {
	each := make(map[string]digest, len(files))
	for i, f := range files {
		each[f.Name] = digestOf(files[i:i+1], nil)
	}
	return each
}

func (w *Watcher) path() string { return strings.Join(w.c.Paths, ", ") }

// digest tells contents apart.
type digest [sha256.Size]byte

// digestOf returns the digest of files, or of the reason that there are none.
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
