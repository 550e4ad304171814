package observe

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/outbound"
)

// Config configures a [Monitor]. The zero value is ready to use.
type Config struct {
	// Logger logs alerts, thresholds and failures of webhooks. If it is nil, slog.Default() is used.
	Logger *slog.Logger
	// ShowSubjects shows subjects in full. By default, addresses are shortened to their network and
	// other subjects to a few letters, followed by a few characters of the subject's Ref; see
	// [Violation].
	ShowSubjects bool
	// Alerts configures when alerts fire and where they are sent.
	Alerts AlertConfig
	// Webhooks are the addresses to which thresholds are posted.
	Webhooks []Webhook
	// KeepDenials is the time for which this process keeps records of why subjects were denied, for
	// [Monitor.Why]. If it is 0, 24 hours are used. If it is negative, no records are kept. There are
	// at most 20,000 records, one per subject, rule, reason and minute. They usually take less than 20
	// MB.
	KeepDenials time.Duration
	// Version is the version of the program, for stint_build_info. If it is "", the version in the
	// build info is used.
	Version string
	// LogDropped returns the number of log records that this process has dropped because they could
	// not be written in time. The result is used for stint_log_dropped_total and the alert LogDropped.
	// The function is called every second and for every scrape, possibly concurrently. It may be nil
	// if the log never drops records.
	LogDropped func() int64
}

// Monitor counts the decisions and store calls of a limiter, keeps a history of the last hours and
// raises alerts. It is an observer for guards, stacks and outbound registries, and a Prometheus
// collector. Pass it to everything in a process that makes decisions:
//
//	monitor, err := observe.New(observe.Config{})
//	...
//	defer monitor.Close()
//	stack, err := resilience.New(redis, resilience.Config{Observer: monitor})
//	...
//	guard, err := policy.NewGuard(stack, set, policy.GuardConfig{Observer: monitor})
//	...
//	prometheus.MustRegister(monitor)
//
// A decision is counted once, at the outermost layer: if a guard uses a stack, the guard's decision
// is counted and the stack's is not. For a stack that limiters use directly, pass
// [Monitor.StackObserver] instead.
//
// Monitor is safe for concurrent use and adds a few dozen nanoseconds to a decision. It runs one
// goroutine, and more for webhooks, [Monitor.WatchStore] and [Monitor.Share].
type Monitor struct {
	version    string
	logDropped func() int64
	descs      map[string]*prometheus.Desc

	ledger    *ledger
	lost      *byName[lostName, atomic.Int64]  // settlements and refunds that were not applied
	cuts      *byName[routeName, atomic.Int64] // units of true costs that were not charged
	holds     *byName[routeName, holds]
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

	sampling  sync.Mutex // held while a sample is taken, so that [Monitor.Status] sees only complete seconds
	surges    surges
	lastSurge *Surge // the current surge, or nil

	fleet         atomic.Pointer[fleet] // nil unless the monitor shares its counts
	outboundStats atomic.Pointer[func() []outbound.Stats]
	lastAlerts    atomic.Pointer[[]Alert]
	subscribers   subscribers

	closing sync.Once
	stop    chan struct{}
	work    sync.WaitGroup
}

var _ stint.Observer = (*Monitor)(nil)

// New returns a new monitor. Call [Monitor.Close] when done. New fails only if c.Alerts or
// c.Webhooks are invalid. The error is then a [*stint.InvalidError] that joins all mistakes.
func New(c Config) (*Monitor, error) {
	errs := []error{contract.Mistakes(c.Alerts.Validate())}
	for i := range c.Webhooks {
		if err := c.Webhooks[i].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("webhook %d: %w", i, contract.Mistakes(err)))
		}
	}
	if err := asInvalid(errs); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Alerts.Instance == "" {
		c.Alerts.Instance, _ = os.Hostname() // "" on failure
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
		lost:       newByName[lostName, atomic.Int64](lostName.rest, nil),
		cuts:       newByName[routeName, atomic.Int64](routeName.rest, nil),
		holds:      newByName[routeName, holds](routeName.rest, nil),
		decisions:  newHistogram(),
		store:      newStoreCounters(),
		reloads:    newByName[string, reloads](anyOther, nil),
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
	m.subscribers.each = map[chan Tick]bool{}
	m.outbound = newByName(anyOther, newCalls(m.ledger))
	m.feed = newFeed(m.names)
	m.denials = newDenials(m.names, &c)
	m.offenders = newOffenders(m.names)
	m.newcomers = newNewcomers()
	m.lastAlerts.Store(new([]Alert))
	m.clock.set(time.Now())
	m.work.Go(m.run)
	return m, nil
}

// Close stops all background work except sharing (see [Monitor.Share]), and closes the channels of
// subscribers. It also posts the queued messages to webhooks: first alerts, for at most five
// seconds, and then thresholds, for at most five seconds. The counts can still be read after Close.
// Close always returns nil.
func (m *Monitor) Close() error {
	m.closing.Do(func() {
		close(m.stop)
		m.work.Wait()
		m.watch.close()
		m.alerts.webhooks.close()
		m.reached.webhooks.close()
		m.subscribers.close()
	})
	return nil
}

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

// sample adds the last second to the history, evaluates the alerts and sends a tick to subscribers.
// It is called once a second.
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
		tick.Processes = f.processes(now)
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

// totals holds all counts since the start. Calls to third-party APIs are counted only in series,
// not in Point.
type totals struct {
	Point
	decisions, storeCalls buckets
	series                []Series // new series are appended; the order never changes
	names                 []seriesName
	slowest               Point // the longest durations in the reports of other processes
}

// worst returns the subjects with the most denials in the last ten seconds.
func (m *Monitor) worst(now time.Time) []Offender {
	if f := m.fleet.Load(); f != nil {
		return f.worst(now)
	}
	return m.offenders.worst(now)
}

func (m *Monitor) totals() totals {
	t := totals{decisions: m.decisions.snapshot()}
	t.storeCalls, t.CallsFailed = m.store.totals()
	t.Saved, t.Calls, t.Carried = m.store.totalSaved(), t.storeCalls.total(), m.store.carried.Load()
	for name, s := range m.ledger.all() {
		c := s.tally.counts()
		t.series = append(t.series, Series{Tier: name.tier, Policy: name.policy, Total: c})
		t.names = append(t.names, name)
		if !name.outbound {
			t.Counts = t.Counts.combine(c, plus)
		}
	}
	return t
}

// clock is a clock that is accurate to a second and fast to read.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) set(now time.Time) { c.at.Store(&now) }

func (c *clock) now() time.Time { return *c.at.Load() }
