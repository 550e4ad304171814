package observe

import (
	"context"
	"slices"
	"time"
)

// Status returns the current state: the last second, every series with its history, the last n
// violations (newest last), all alerts, and the health of the store.
//
// To follow the state, call [Monitor.Subscribe], then Status, and apply the ticks to its result.
// Point is the last second that Series, Violations and Alerts include, so ignore ticks that are not
// later than Point. Offenders and Store are current.
func (m *Monitor) Status(n int) Tick {
	m.sampling.Lock()
	defer m.sampling.Unlock()
	now := time.Now()
	t := Tick{
		Series: m.shown().series(), Violations: m.feed.recent(n), Offenders: m.worst(now),
		Alerts: slices.Clone(*m.lastAlerts.Load()), Store: m.watch.health(),
		Changes: m.denials.recentChanges(now), Surge: m.lastSurge,
	}
	if f := m.fleet.Load(); f != nil {
		t.Processes = f.processes(now)
	}
	if points := m.shown().points(fine); len(points) > 0 {
		t.Point = points[len(points)-1]
	}
	return t
}

// shown returns the history to show. If this process shares its counts, the history covers all
// processes. Otherwise, it covers only this process.
func (m *Monitor) shown() *history {
	if f := m.fleet.Load(); f != nil {
		return f.history
	}
	return m.history
}

// History returns the points of the history, oldest first: one for every second of the last 15
// minutes or, if step is longer than a second, one for every ten seconds of the last two hours.
func (m *Monitor) History(step time.Duration) []Point { return m.shown().points(step) }

// Top returns the n offenders of a kind with the most denials in the last eight to ten minutes, or
// all if there are fewer, in descending order of denials. See [Offender.Kind].
func (m *Monitor) Top(kind string, n int) []Offender {
	if f := m.fleet.Load(); f != nil {
		return f.top(kind, n, time.Now())
	}
	return m.offenders.top(kind, n, time.Now())
}

// Offender returns what is known about a subject, and reports whether the subject is known to have
// been denied in the last hour. The result always has a Ref, which identifies the subject where it
// cannot be shown. The Ref stays the same for the lifetime of the monitor, and has no meaning to
// other monitors.
func (m *Monitor) Offender(subject string) (Offender, bool) {
	now := time.Now()
	found, known := m.offenders.find(subject, now)
	if f := m.fleet.Load(); f != nil {
		known = f.complete(&found, subject, now) || known
	}
	return found, known
}

// SubjectOf returns the subject that a Ref identifies. It returns false if this monitor did not
// create the Ref.
func (m *Monitor) SubjectOf(ref string) (string, bool) { return m.names.subject(ref) }

// WatchStore makes the monitor call probe every few seconds to get the health of the store, until
// the monitor is closed. A new probe replaces the previous one.
//
// The monitor ignores Up, DownSince and LastError in the result of the probe, because it derives
// them from calls to the store. A [stint.StoreError] of kind "timeout" or "unreachable", or
// [context.DeadlineExceeded], means that the store does not answer. Any other error means that the
// store answers but does not report its health, for instance because it lacks permission. With an
// error, the probe may also return fields that it knows without the store, such as Kind.
func (m *Monitor) WatchStore(probe func(ctx context.Context) (StoreHealth, error)) {
	m.watch.watch(probe)
}
