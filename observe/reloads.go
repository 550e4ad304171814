package observe

import (
	"sync"
	"time"
)

// reloads are what came of changes of one part of the configuration.
type reloads struct {
	source string

	mu                          sync.Mutex
	changed, unchanged, refused int64
	good                        time.Time // when it was last found good
	bad                         bool      // the last time it was not
}

func newReloads(source string) *reloads { return &reloads{source: source} }

// Reloaded counts what came of reading a part of the configuration: that it has changed, or why
// what is in its files now is not in force. Sources are named by the program, never by a request.
func (m *Monitor) Reloaded(source string, changed bool, err error, at time.Time) {
	r := m.reloads.get(clean(source))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = err != nil
	switch {
	case err != nil:
		r.refused++
		return
	case changed:
		r.changed++
		if source == "policies" {
			m.denials.reloaded(at)
		}
	default:
		r.unchanged++
	}
	r.good = at
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
