package observe

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/outbound"
)

// Config sets up a [Monitor]. Its zero value is ready for use.
type Config struct {
	// Logger logs alerts. It is slog.Default() unless set.
	Logger *slog.Logger
	// ShowSubjects shows subjects in full. Unless it is set they are shortened: addresses to their
	// network, all others to a few letters, each with some letters of its ref.
	ShowSubjects bool
	// Alerts says when alerts fire, and who is notified. It is taken to be valid; see
	// [AlertConfig.Validate].
	Alerts AlertConfig
	// Webhooks are where thresholds are posted. They are taken to be valid; see [Webhook.Validate].
	Webhooks []Webhook
	// KeepDenials is for how long this process remembers why subjects were denied, for
	// [Monitor.Why]: 24 hours unless set, and not at all if it is negative. It remembers the last
	// 20,000 minutes of subjects and rules, in 20 MB at most.
	KeepDenials time.Duration
	// Version is that of the program, for stint_build_info. It is what the program was built with
	// unless set.
	Version string
	// LogDropped returns how many log records this process has dropped because they could not be
	// written in time, for stint_log_dropped_total and the alert LogDropped. It is called often. A
	// program whose log cannot drop records leaves it nil.
	LogDropped func() int64
}

// Monitor counts what a limiter does, remembers the last hours of it and raises alarms. It is an
// observer of guards, of stacks and of outbound registries, and a collector of Prometheus. Give it
// to all that decide in a process:
//
//	monitor := observe.New(observe.Config{})
//	defer monitor.Close()
//	stack, err := resilience.New(redis, resilience.Config{Observer: monitor})
//	...
//	guard, err := policy.NewGuard(stack, set, policy.GuardConfig{Observer: monitor})
//	...
//	prometheus.MustRegister(monitor)
//
// A decision is counted once, by whoever was asked first: a guard over a stack counts and the stack
// does not. A stack that limiters ask directly is given [Monitor.Limiters] instead.
//
// It is safe for concurrent use, and its part in a decision is a few dozen nanoseconds. It has one
// goroutine, one more for the store it watches, and some for each webhook.
type Monitor struct {
	version    string
	logDropped func() int64
	descs      map[string]*prometheus.Desc

	ledger    *ledger
	lost      *byName[lostName, lost]
	cuts      *byName[cutName, cut]
	holds     *byName[cutName, holds]
	decisions *histogram
	store     *storeCounters
	outbound  *byName[string, calls]
	reloads   *byName[string, reloads]
	clock     clock

	names     *names
	feed      *feed
	denials   *denials
	offenders *offenders
	newcomers *newcomers
	history   *history
	alerts    *alerts
	reached   *thresholds
	watch     *storeWatch

	sampling  sync.Mutex // so that [Monitor.Status] has all of a second, or nothing of it
	surges    surges
	lastSurge *Surge // nil if none lasts

	fleet         atomic.Pointer[fleet] // nil unless shared
	outboundStats atomic.Pointer[func() []outbound.Stats]
	lastAlerts    atomic.Pointer[[]Alert]
	subscribers   subscribers

	closing sync.Once
	stop    chan struct{}
	work    sync.WaitGroup
}

var _ stint.Observer = (*Monitor)(nil)

// New returns a monitor. It is to be closed.
func New(c Config) *Monitor {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if info, ok := debug.ReadBuildInfo(); ok && c.Version == "" {
		c.Version = info.Main.Version
	}
	if c.LogDropped == nil {
		c.LogDropped = func() int64 { return 0 }
	}
	m := &Monitor{
		version:    c.Version,
		logDropped: c.LogDropped,
		descs:      newDescs(),
		ledger:     newLedger(),
		lost:       newByName(lostName.rest, newLost),
		cuts:       newByName(cutName.rest, newCut),
		holds:      newByName(cutName.rest, newHolds),
		decisions:  newHistogram(),
		store:      newStoreCounters(),
		reloads:    newByName(anyOther, newReloads),
		names:      newNames(label.Line),
		history:    newHistory(),
		alerts:     newAlerts(c.Alerts, c.Logger),
		reached:    newThresholds(&c),
		watch:      newStoreWatch(),
		stop:       make(chan struct{}),
	}
	if !c.ShowSubjects {
		m.names.label = m.names.short
	}
	m.outbound = newByName(anyOther, newCalls(m.ledger))
	m.feed = newFeed(m.names)
	m.denials = newDenials(m.names, &c)
	m.offenders = newOffenders(m.names)
	m.newcomers = newNewcomers()
	m.lastAlerts.Store(new([]Alert))
	m.clock.set(time.Now())
	m.work.Go(m.run)
	return m
}

// Close ends what goes on in the background, and the channels of subscribers. What waits to be
// posted to webhooks is posted first, for five seconds at most. What is counted can still be read.
// It never fails.
func (m *Monitor) Close() error {
	m.closing.Do(func() {
		close(m.stop)
		m.work.Wait()
		m.watch.close()
		m.alerts.close()
		m.reached.close()
		m.subscribers.close()
	})
	return nil
}

// run takes a sample every second.
func (m *Monitor) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			m.sample(now)
		case <-m.stop:
			return
		}
	}
}

// sample ends a second: it goes into the history, alerts are evaluated, and subscribers receive a
// tick.
func (m *Monitor) sample(now time.Time) {
	m.sampling.Lock()
	defer m.sampling.Unlock()
	m.clock.set(now)
	m.offenders.tick(now)
	m.newcomers.tick(now)
	if now.Unix()%60 == 0 {
		m.denials.expire(now)
	}
	t := m.totals()
	var tick Tick
	tick.Point, tick.Series = m.history.add(now, &t)
	f := m.fleet.Load()
	if f != nil {
		tick.Point, tick.Series = f.tick(&t, now)
	}
	tick.Violations = m.feed.drain()
	tick.Unshown = max(0, tick.Point.Denied+tick.Point.Shadowed-int64(len(tick.Violations)))
	tick.Offenders, tick.Store, tick.Changes = m.worst(now), m.watch.health(), m.denials.recentChanges(now)
	if f != nil {
		tick.Processes = f.processes(now, *m.lastAlerts.Load())
	}
	r := read(now, m.history, &tick, m.alerts.known)
	r.surge = m.surge(now, len(tick.Processes))
	if !r.surge.Since.IsZero() {
		tick.Surge = &r.surge
	}
	m.lastSurge = tick.Surge
	r.refused, r.dropped = m.refused(), m.logDropped()
	r.expiring, r.expires = m.soonest()
	all, changed := m.alerts.evaluate(r)
	m.lastAlerts.Store(&all)
	if changed {
		tick.Alerts = all
	}
	m.subscribers.send(tick, all)
}

// totals are what was counted since the start. Calls to other people's APIs are among the series
// only.
type totals struct {
	Point
	decisions, storeCalls buckets
	series                []Series // they only grow, and their order never changes
	names                 []seriesName
	slowest               Point // durations at least as long as these, of other processes
}

func (m *Monitor) totals() totals {
	t := totals{decisions: m.decisions.snapshot()}
	t.storeCalls, t.CallsFailed = m.store.totals()
	t.Saved, t.Calls, t.Carried = m.store.totalSaved(), t.storeCalls.total(), m.store.carried.Load()
	for _, s := range m.ledger.all() {
		c := s.tally.counts()
		t.series = append(t.series, Series{Tier: s.name.tier, Policy: s.name.policy, Total: c})
		t.names = append(t.names, s.name)
		if !s.name.outbound {
			t.Counts = t.Counts.combine(c, plus)
		}
	}
	return t
}
