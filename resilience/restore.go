package resilience

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// A store may lose what it knew: it was flushed, it started again from an old copy, a replica took
// over that was behind, or it evicted a state. Every answer counts what all processes were granted.
// So the processes send the store their last answers from before the loss. The store charges only
// what is missing, so that neither their order nor repeats matter.
//
// A loss is noticed by a heartbeat, a second later at most: see [driver.Presence]. Answers since
// the last heartbeat may be from after the loss. So of each limit the last answer from before that
// heartbeat is kept, too. An evicted state is noticed by its generation: a reset is announced.

// answer is what the store said of a limit: so many units were used, the last of which counts until
// a time, by our clock, as was said when it arrived.
type answer struct{ used, until, arrived int64 }

const (
	// maxLost is how many counts are sent after a loss: those of which the largest part is used.
	maxLost = 65_536
	// restorePause is the time between batches of counts.
	restorePause = 10 * time.Millisecond
	// resetTime is how long the announcement of a reset may take.
	resetTime = 500 * time.Millisecond
)

// keep keeps the answers of a record that the next one replaces, if they are from before any loss
// that is yet to be noticed: they are of an earlier epoch, or of another generation. The lock is
// held.
func (l *ledger) keep(rec *record, replaced bool, now int64) {
	counts := false
	for i := range rec.counts {
		if c := &rec.counts[i]; rec.replaced == 0 && (replaced || rec.epoch < l.safe.Load()) {
			c.before = c.heard.answer
			counts = counts || c.before.used > 0 && c.before.until > now
		}
	}
	if replaced && counts { // else it has expired
		select {
		case l.replaced <- rec:
			rec.replaced = now
		default: // what is left out is counted from nothing, as without this
		}
	}
	rec.epoch = l.epoch.Load()
}

// commandedElsewhere notes that a subject was reset, banned or unbanned: earlier answers about it
// are not sent after a loss. If its name is not known, that holds for all.
func (l *ledger) commandedElsewhere(subject string) {
	now := l.now()
	if subject == "" || strings.ContainsAny(subject, "~#") {
		l.anyCommanded.Store(now)
		return
	}
	claims := []stint.Claim{{Subject: subject}}
	s, _ := l.identify(&claims[0])
	defer l.unlock(l.lock(claims))
	for _, rec := range s.records {
		if rec.subject == subject {
			rec.resetAt = now
		}
	}
}

// lostCount is what was used of a limit before a loss.
type lostCount struct {
	answer
	claim stint.Claim // its cost is what was used
	parts []part      // what this process was granted of that
	share float64
}

// part is how many units count until a time.
type part struct{ until, units int64 }

// lost returns what was used of the limits of a record, if a loss was noticed. The lock is held.
func (l *ledger) lost(rec *record, safe uint32, now int64, all []lostCount) []lostCount {
	for i := range rec.counts {
		c, known := &rec.counts[i], rec.counts[i].before
		if rec.replaced == 0 && rec.epoch < safe {
			known = c.heard.answer
		}
		if known.used <= 0 || known.until <= now || c.Algorithm == stint.AlgorithmConcurrency ||
			known.arrived < max(c.since, rec.resetAt, l.anyCommanded.Load()) {
			continue
		}
		lost := lostCount{answer: known, claim: rec.claim(&c.Limit, min(known.used, stint.MaxUnits)),
			share: float64(known.used) / float64(max(c.capacity, 1))}
		for until, units := range c.granted() {
			if until > now && c.unit == 0 && c.Algorithm == stint.AlgorithmSliding {
				lost.parts = append(lost.parts, part{until, units})
			}
		}
		all = append(all, lost)
	}
	return all
}

// lostAll returns what was used of all limits before a loss, the most used first.
func (l *ledger) lostAll(safe uint32) (all []lostCount) {
	now := l.now()
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for _, rec := range s.records {
			all = l.lost(rec, safe, now, all)
			rec.replaced = 0
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b lostCount) int { return cmp.Compare(b.share, a.share) })
	return all[:min(len(all), maxLost)]
}

// lostSome returns what was used of states that were replaced, without a loss or a reset that was
// noticed since.
func (l *ledger) lostSome() (all []lostCount) {
	for n := len(l.replaced); n > 0; n-- {
		rec := <-l.replaced
		now := l.now()
		rec.stripe.mu.Lock()
		switch {
		case rec.replaced == 0:
		case now-rec.replaced < int64(resetTime): // its reset may be announced yet
			select {
			case l.replaced <- rec:
			default:
				rec.replaced = 0
			}
		default:
			all = l.lost(rec, 0, now, all)
			rec.replaced = 0
		}
		rec.stripe.mu.Unlock()
	}
	return all
}

// requests are those that have the store count at least what is lost. Of a sliding window, what
// this process was granted itself counts as long as it would have; the rest as long as the newest
// of it.
func (c *lostCount) requests(now int64, to []*driver.Call) []*driver.Call {
	window := int64(c.claim.Limits[0].Window)
	add := func(units, age int64) {
		r := stint.Request{Claims: []stint.Claim{c.claim}, Mode: driver.ModeForce}
		r.Claims[0].Cost = units
		r.Terms().AtLeast = true
		r.Terms().Age = time.Duration(max(age, 0)).Truncate(time.Microsecond)
		r.Terms().Refilled = time.Duration(max(now-c.arrived, 0)).Truncate(time.Microsecond)
		to = append(to, &driver.Call{Request: r})
	}
	sum := int64(0)
	for _, p := range c.parts {
		if sum += p.units; sum >= c.used {
			break
		}
		if p.until > now {
			add(sum, now-(p.until-window))
		}
	}
	switch l := &c.claim.Limits[0]; {
	case l.Algorithm != stint.AlgorithmSliding: // it counts in this window, or in this period
		add(c.used, 0)
	case c.claim.Limits[0].Burst > 1:
		add(c.used, now-c.arrived)
	default:
		add(c.used, now-(c.until-window))
	}
	return to
}

// restore has the store count what was lost, in batches. What fails is repeated for as long as it
// counts.
func (s *Stack) restore(all []lostCount) {
	sent := 0
	for len(all) > 0 && s.life.Err() == nil {
		var batch []*driver.Call
		n, now := 0, s.ledger.now()
		for ; n < len(all) && len(batch) < sendMost; n++ {
			if all[n].until > now {
				batch = all[n].requests(now, batch)
			}
		}
		if len(batch) > 0 && !s.restoreSome(batch) {
			sleep(s.life, jitter(sendPause))
			continue
		}
		sent += n
		all = all[n:]
		sleep(s.life, restorePause)
	}
	s.config.Logger.Warn("stint: the store had lost what was used; this process has told it again", "limits", sent)
}

// restoreSome sends a batch, and reports whether the store has taken any of it over: otherwise it
// is to be repeated.
func (s *Stack) restoreSome(batch []*driver.Call) bool {
	if s.store.refused(opTake) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.life, sendTime)
	defer cancel()
	s.store.take(ctx, batch, new(attempt))
	return slices.ContainsFunc(batch, func(c *driver.Call) bool { return c.Err == nil })
}
