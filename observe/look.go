package observe

import (
	"slices"
	"time"
)

// History returns what happened, oldest first: second by second for the last 15 minutes, or if the step is longer in
// tens of seconds for the last two hours.
func (m *Monitor) History(step time.Duration) []Point { return m.history.points(step) }

// Series returns what happened to every tier and policy that was heard of.
func (m *Monitor) Series() []Series { return m.history.series() }

// Recent returns up to n of the last violations, newest last.
func (m *Monitor) Recent(n int) []Violation { return m.feed.recent(n) }

// Top returns up to n of those who were denied most in the last minutes, by kind: see [Offender.Kind].
func (m *Monitor) Top(kind string, n int) []Offender { return m.offenders.top(kind, n, time.Now()) }

// SubjectOf returns the subject that a Ref stands for, while it is remembered.
func (m *Monitor) SubjectOf(ref string) (string, bool) {
	if ref == "" { // that of subjects which are too long
		return "", false
	}
	if subject, ok := m.offenders.subjectOf(ref); ok {
		return subject, true
	}
	return m.feed.subjectOf(ref)
}

// Alerts returns every alert there can be, as of the last second.
func (m *Monitor) Alerts() []Alert { return slices.Clone(*m.lastAlerts.Load()) }

// Store returns how the store is.
func (m *Monitor) Store() StoreHealth { return m.watch.health() }

// WatchStore has the monitor ask every few seconds how the store is, until it is closed. A new probe replaces the
// one before.
func (m *Monitor) WatchStore(probe Probe) { m.watch.watch(probe) }
