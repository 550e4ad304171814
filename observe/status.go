package observe

import (
	"context"
	"slices"
	"time"
)

// Status returns how things are: the last second, every series with its history, up to n of the
// last violations, newest last, every alert there can be, and the store's health.
//
// A subscriber that asks for it misses nothing: its Point, Series, Violations and Alerts have all
// ticks up to the second of its Point, and no part of those after it. Offenders and Store are as of
// now.
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
		t.Processes = f.processes(now, t.Alerts)
	}
	if points := m.shown().points(fine); len(points) > 0 {
		t.Point = points[len(points)-1]
	}
	return t
}

// shown is the history that is shown: that of all processes if they share what they count.
func (m *Monitor) shown() *history {
	if f := m.fleet.Load(); f != nil {
		return f.history
	}
	return m.history
}

// worst returns those with most denials in the last ten seconds.
func (m *Monitor) worst(now time.Time) []Offender {
	if f := m.fleet.Load(); f != nil {
		return f.worst(now)
	}
	return m.offenders.worst(now)
}

// History returns what happened, oldest first: second by second for the last 15 minutes or, if the
// step is longer, in steps of ten seconds for the last two hours.
func (m *Monitor) History(step time.Duration) []Point { return m.shown().points(step) }

// Top returns up to n of those who were denied most in the last minutes, by kind: see
// [Offender.Kind].
func (m *Monitor) Top(kind string, n int) []Offender {
	if f := m.fleet.Load(); f != nil {
		return f.top(kind, n, time.Now())
	}
	return m.offenders.top(kind, n, time.Now())
}

// Offender returns what is known of one subject: at least its Ref, which stands for the subject
// where it cannot be shown. It is the same for as long as the process lives, and means nothing to
// others. Offender reports false if the subject is not known to have been denied in the last hour.
func (m *Monitor) Offender(subject string) (Offender, bool) {
	now := time.Now()
	found, known := m.offenders.find(subject, now)
	if f := m.fleet.Load(); f != nil {
		known = f.complete(&found, subject, now) || known
	}
	return found, known
}

// SubjectOf returns the subject that a Ref of this monitor stands for.
func (m *Monitor) SubjectOf(ref string) (string, bool) { return m.names.subject(ref) }

// WatchStore has the monitor ask the store for its health every few seconds, until it is closed. A
// new probe replaces the one before.
//
// What the probe says of Up, DownSince and LastError does not count: the monitor learns that from
// the calls that are made. An error of kind "timeout" or "unreachable" means that the store does
// not answer. Any other error means that it does not tell its health, because it may not for
// instance. What is known of a store anyway, such as its Kind, may come with the error.
func (m *Monitor) WatchStore(probe func(ctx context.Context) (StoreHealth, error)) {
	m.watch.watch(probe)
}
