package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Threshold reports that a subject has used a percentage of a limit in a period; see [Tier.Notify].
// The observer of a guard receives it at least once for each combination of subject, limit,
// percentage and period, and normally exactly once: of the processes that share a store, only the
// first one to notice the event reports it.
type Threshold struct {
	// ID is derived from everything that identifies the event, so it is the same in every process.
	// Receivers can drop events whose ID they have seen before.
	ID string
	// Rule is the rule that the Limit belongs to.
	Rule *Rule
	// Subject and Scope identify the count that has reached the percentage.
	Subject, Scope string
	// Limit is the limit as it applied to the request, with the effects of claims and overrides.
	Limit stint.Limit
	// Percent is the percentage of the limit, 1 to 100. 100 means that a request was denied.
	Percent int
	// Used is the number of units used.
	Used int64
	// Until is the end of the period.
	Until time.Time
}

// Event implements [stint.Event].
func (*Threshold) Event() {}

const (
	maxNotify = 10
	// minNotify is the shortest window of a limit whose usage is reported.
	minNotify = time.Minute
	// markType is the prefix of the subjects under which the store keeps the marks of reported
	// thresholds.
	markType = "threshold:"
	// longestShift is longer than any local time change, such as the end of daylight saving time. A
	// time change can make a period longer than its window, so the store keeps the marks of
	// calendar limits for the window plus longestShift.
	longestShift = 2 * time.Hour
)

// hasPeriod reports whether a limit counts usage in periods, each of which starts from zero.
func hasPeriod(l *stint.Limit) bool {
	return l.Algorithm == stint.AlgorithmFixed || l.Algorithm == stint.AlgorithmCalendar
}

func (c *compiler) notify(key string, shares []int, lists ...[]Limit) {
	if shares == nil {
		return
	}
	if len(shares) == 0 || len(shares) > maxNotify {
		c.mistake(key, "there are %d shares; want 1 to %d, such as [50%%, 80%%, 100%%]", len(shares), maxNotify)
	}
	for i, n := range shares {
		switch {
		case n < 1 || n > 100:
			c.mistake(at(key, i, shares), "%d%%; want 1%% to 100%%, which is the first denial", n)
		case i > 0 && n <= shares[i-1]:
			c.mistake(at(key, i, shares), "%d%% after %d%%; want each share once, in ascending order", n, shares[i-1])
		}
	}
	var other *stint.Limit
	for _, l := range slices.Concat(lists...) {
		switch {
		case !hasPeriod(&l.Limit):
			other = &l.Limit
		case l.Limit.Window >= minNotify:
			return
		default:
			c.mistake(key, "%s: its periods are too short to be reported; want a window of 1m or more", l.Limit)
			return
		}
	}
	if other == nil {
		c.mistake(key, "has no limit whose usage can be reported; want a quota, such as 10000/month")
		return
	}
	c.mistake(key, "%s has no period in which its usage can be reported; want a quota of a day, week, month or year, such as %d/month, "+
		"or a fixed window, such as %d/1h fixed", other, max(other.Max, 1), max(other.Max, 1))
}

// Notifies returns the percentages of l, a limit of the rule, at which its usage is reported. It
// returns nil if its usage is not reported.
func (r *Rule) Notifies(l *stint.Limit) []int {
	if hasPeriod(l) && l.Window >= minNotify {
		return r.Notify
	}
	return nil
}

// reached caches the thresholds that this process has marked in the store, so that most decisions
// need not ask the store. If another threshold overwrites a cached one, the store is asked again.
type reached struct {
	seed  maphash.Seed
	marks [1 << 16]atomic.Uint64
}

// add stores a mark and reports whether it was not yet stored.
func (r *reached) add(mark uint64) bool {
	slot := &r.marks[mark%uint64(len(r.marks))]
	return slot.Load() != mark && slot.Swap(mark) != mark
}

// reportThresholds reports the thresholds that a request has reached according to the store's
// decision. It ignores decisions that were made without the store, because they know only part of
// the usage. It also ignores bookings, which allow a request only at a later time.
func (g *Guard) reportThresholds(ctx context.Context, v *Verdict, r *stint.Request) {
	d, budget := &v.Decision, time.Duration(0) // 0 means the store's default
	if r.Failure != nil {
		budget = r.Failure.Budget
	}
	if d.Degraded || d.Allowed && d.RetryAfter > 0 {
		return
	}
	for i := range v.Results[:v.enforced] {
		r := &v.Results[i]
		if r.Rule.Notify == nil {
			continue
		}
		for k := range r.Usages {
			if l := &r.Limits[k]; r.Rule.Notifies(l) != nil {
				g.reportUse(ctx, v, i, k, budget)
			}
		}
	}
}

// reportUse reports the thresholds that limit k of result i has reached. The argument budget is the
// time limit for marking each threshold in the store.
func (g *Guard) reportUse(ctx context.Context, v *Verdict, i, k int, budget time.Duration) {
	r := &v.Results[i]
	l, u := &r.Limits[k], r.Usages[k]
	until, hash := time.Time{}, uint64(0)
	for _, percent := range r.Rule.Notify {
		if !isReached(percent, l, &u) {
			continue
		}
		if until.IsZero() {
			until = endOf(v, i, l, u.ResetAfter)
			hash = g.hash(r, l, until)
		}
		if !g.reached().add(hash + uint64(percent)*0x9e3779b97f4a7c15) { // 2^64 divided by the golden ratio
			continue
		}
		t := Threshold{Rule: r.Rule, Subject: r.Subject, Scope: r.Scope, Limit: *l, Percent: percent, Used: u.Used,
			Until: until}
		t.ID = t.id()
		if g.mark(ctx, &t, budget) {
			g.observer.Observe(ctx, &t)
		}
	}
}

// isReached reports whether the usage of a limit has reached a percentage of it. 100 percent is
// reached when the limit denies a request that it would allow later.
func isReached(percent int, l *stint.Limit, u *stint.Usage) bool {
	if percent == 100 {
		return u.RetryAfter != 0 && u.RetryAfter != stint.Never
	}
	return l.Max > 0 && 100*u.Used >= int64(percent)*l.Max
}

// endOf returns the end of the limit's period. left is the time until the usage is reset. If this
// process made the decision from memory, it knows only the local clock, which may be off by some
// seconds, so endOf rounds the end to whole windows or minutes. If the store's clock is known, the
// result is never after the end of the period by that clock, although held units may be reset
// later.
func endOf(v *Verdict, i int, l *stint.Limit, left time.Duration) time.Time {
	now, latest := time.Now(), int64(math.MaxInt64)
	if data := v.Decision.Charge.Data(); data.NowOf(i) != 0 && !data.IsLeased(i) {
		now = time.UnixMicro(data.NowOf(i))
		_, latest = contract.Period(l, data.NowOf(i))
	}
	unit := time.Minute.Microseconds()
	if l.Algorithm == stint.AlgorithmFixed {
		unit = l.Window.Microseconds()
	}
	end := now.Add(left).UnixMicro() + unit/2
	return time.UnixMicro(min(end-end%unit, latest)).UTC()
}

// hash returns a hash of a limit, a subject and the end of a period. It differs between processes.
func (g *Guard) hash(r *Result, l *stint.Limit, until time.Time) uint64 {
	var h maphash.Hash
	h.SetSeed(g.reached().seed)
	for _, part := range [...]string{r.Subject, r.Scope, r.Rule.Name(), l.Name} {
		_, _ = h.WriteString(part) // never fails
		_ = h.WriteByte(0)
	}
	return h.Sum64() + uint64(until.Unix())*0xff51afd7ed558ccd + uint64(l.Window)*uint64(1+l.Algorithm)
}

func (t *Threshold) id() string {
	h := sha256.New()
	for _, part := range [...]string{t.Subject, t.Scope, t.Rule.Name(), t.Limit.Name, t.Limit.Algorithm.String(),
		t.Limit.Window.String(), strconv.Itoa(t.Percent), strconv.FormatInt(t.Until.Unix(), 10)} {
		_, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// mark marks an event in the store. It reports whether this process must report the event, because
// it is the first to mark it or because the store failed.
func (g *Guard) mark(ctx context.Context, t *Threshold, budget time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxBudget)
	defer cancel()
	window := t.Limit.Window
	if t.Limit.Algorithm == stint.AlgorithmCalendar {
		window = min(window+longestShift, stint.MaxWindow)
	}
	d, err := g.store.Take(ctx, stint.Request{
		Claims:  []stint.Claim{{Subject: markType + t.ID, Limits: []stint.Limit{stint.Per(1, window)}, Cost: 1}},
		Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: budget},
	})
	return err != nil || d.Allowed
}
