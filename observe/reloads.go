package observe

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/reload"
)

// reloads counts the reloads of one part of the configuration by result, and records its current
// state.
type reloads struct {
	mu                          sync.Mutex
	changed, unchanged, refused int64
	good                        time.Time // when the files were last valid
	bad                         bool      // whether the last reload was refused
	fingerprint                 string
	expires                     time.Time // when the current configuration expires; zero means never
}

// Reload is the result of checking a part of the configuration; config.Reload is the same type. At
// is the time of the check. Err is the reason why the current files are not in force, or nil.
// Changed reports whether this check put a change into effect, and Changes lists the differences
// from the previous version. Versions with the same meaning have the same Fingerprint, on any host.
// Expires is the time at which the part becomes invalid; zero means never.
type Reload = reload.Result

// Reloaded counts the result of reloading a part of the configuration. It also records the changes
// in that part, because they can explain later denials. The program chooses the name of the source,
// which must never come from a request. The result usually comes from a config.Watcher:
//
//	watcher := &config.Watcher{Path: path, Guard: guard, Reloaded: func(r config.Reload) {
//		monitor.Reloaded("policies", r)
//	}}
func (m *Monitor) Reloaded(source string, result Reload) {
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

// fingerprint returns the fingerprints of all parts of the current configuration in one string, or
// "" if no part was read from files.
func (m *Monitor) fingerprint() string {
	var parts []string
	for source, r := range m.reloads.all() {
		r.mu.Lock()
		if r.fingerprint != "" {
			parts = append(parts, source+" "+r.fingerprint)
		}
		r.mu.Unlock()
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// soonest returns the source that expires first, and the time at which it expires. The source is ""
// if none expires.
func (m *Monitor) soonest() (source string, at time.Time) {
	for name, r := range m.reloads.all() {
		r.mu.Lock()
		if !r.expires.IsZero() && (source == "" || r.expires.Before(at)) {
			source, at = name, r.expires
		}
		r.mu.Unlock()
	}
	return source, at
}

func (m *Monitor) refused() (sources []string) {
	for source, r := range m.reloads.all() {
		r.mu.Lock()
		if r.bad {
			sources = append(sources, source)
		}
		r.mu.Unlock()
	}
	return sources
}
