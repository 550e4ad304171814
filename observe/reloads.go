package observe

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/reload"
)

// reloads are what came of changes of one part of the configuration.
type reloads struct {
	source string

	mu                          sync.Mutex
	changed, unchanged, refused int64
	good                        time.Time // when it was last found good
	bad                         bool      // the last time it was not
	fingerprint                 string    // of what is in force
	expires                     time.Time // when that ends to be valid; zero is never
}

func newReloads(source string) *reloads { return &reloads{source: source} }

// Reloaded counts what came of reading a part of the configuration, and remembers what is different
// since: denials that follow are compared with it. Sources are named by the program, never by a
// request. The result is that of a config.Watcher:
//
//	watcher := &config.Watcher{Path: path, Guard: guard, Reloaded: func(r config.Reload) {
//		monitor.Reloaded("policies", r)
//	}}
func (m *Monitor) Reloaded(source string, result reload.Result) {
	r := m.reloads.get(clean(source))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = result.Err != nil
	switch {
	case r.bad:
		r.refused++
		return
	case result.Changed:
		r.changed++
		m.denials.reloaded(source, &result)
	default:
		r.unchanged++
	}
	r.good, r.fingerprint, r.expires = result.At, result.Fingerprint, result.Expires
}

// fingerprint stands for everything that is in force; "" if nothing was read from files.
func (m *Monitor) fingerprint() string {
	var parts []string
	for _, r := range m.reloads.all() {
		r.mu.Lock()
		if r.fingerprint != "" {
			parts = append(parts, r.source+" "+r.fingerprint)
		}
		r.mu.Unlock()
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// soonest returns the source that is the first to be no longer valid, and when; "" if none ends.
func (m *Monitor) soonest() (source string, at time.Time) {
	for _, r := range m.reloads.all() {
		r.mu.Lock()
		if !r.expires.IsZero() && (source == "" || r.expires.Before(at)) {
			source, at = r.source, r.expires
		}
		r.mu.Unlock()
	}
	return source, at
}

// refused returns the sources whose files are not in force.
func (m *Monitor) refused() (sources []string) {
	for _, r := range m.reloads.all() {
		r.mu.Lock()
		bad := r.bad
		r.mu.Unlock()
		if bad {
			sources = append(sources, r.source)
		}
	}
	return sources
}
