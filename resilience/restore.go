package resilience

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/keypart"
)

// A store loses state if it is flushed, if it restarts from an old copy, if a lagging replica takes
// over, or if it evicts a state. Every answer reports the usage of all processes. So the processes
// send the store the last answers that they got before the loss. The store charges only the units
// that it lacks, so the same usage may be sent in any order and more than once.
//
// The next heartbeat notices a loss: see [driver.Presence]. Answers since the last heartbeat may
// have come after the loss, so for each limit the last answer before that heartbeat is kept, too.
// If a state was evicted, the next answer about it has a new generation. The same happens after a
// reset, but a reset is announced.

// answer holds the usage that the store reported for a limit: others is the number of units used by
// other processes, `until` is the time at which the last of these units stops counting, and arrived
// is the time at which the answer arrived. Both times are by the ledger's clock. In [count.heard],
// and under a limit with a meter, others includes the units of this process.
type answer struct{ others, until, arrived int64 }

const (
	// maxLost is the maximum number of counts sent after a loss. If more counts were lost, those
	// that have used the largest share of their capacity are sent.
	maxLost = 65_536
	// restorePause is the time between batches of counts.
	restorePause = 10 * time.Millisecond
	// resetTime is the maximum time that the announcement of a reset is expected to take.
	resetTime = 500 * time.Millisecond
	// Counts that expire within expiryTime are not sent: answers may be that late, and a state that
	// expired looks like one that was lost.
	expiryTime = time.Second
	// lostParts is the maximum number of calls that send the grants of this process under one
	// limit.
	lostParts = 4
	// restoreTries is the number of attempts to send a batch of which the store accepts nothing.
	restoreTries = 3
)

// keep saves the newest answers about a record, before the next answer replaces them. It saves only
// answers that came before any loss that has yet to be noticed: those from an epoch before safe, or
// of an earlier generation. The lock of the record's stripe must be held.
func (l *ledger) keep(rec *record, replaced bool, now int64) {
	if rec.replaced == 0 && (replaced || rec.epoch < l.safe.Load()) { // save at most once per heartbeat
		counts := false
		for i := range rec.counts {
			c := &rec.counts[i]
			gone := replaced && c.Name == rec.state
			if gone || rec.epoch < l.safe.Load() {
				c.before = c.last()
				counts = counts || gone && c.before.until > now+int64(expiryTime)
			}
		}
		if counts { // otherwise the state has expired
			select {
			case l.replaced <- rec:
				rec.replaced = now
			default: // too many are waiting: this record is not restored
			}
		}
	}
	rec.epoch = l.epoch.Load()
}

// last returns the newest answer. Without a meter, the answer's field `others` is replaced by the
// current estimate.
func (c *count) last() answer {
	a := c.heard.answer
	if c.unit == 0 {
		a.others = c.others.units
	}
	return a
}

// commandedElsewhere records that a subject was reset, banned or unbanned, so earlier answers about
// it are not sent after a loss. If the name of the subject is unknown, this applies to all
// subjects.
func (l *ledger) commandedElsewhere(subject string) {
	now := l.now()
	if subject == "" || subject[0] == keypart.HashMark || keypart.IsHashed(subject) {
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

// lostCount is the usage of a limit before a loss.
type lostCount struct {
	answer
	rec   *record
	claim stint.Claim
	share float64
}

type part struct{ until, units int64 }

// outdated reports whether an answer or a grant made at the time `since` is outdated, because the
// subject was reset after that time, or shortly before it: the announcement of the reset may have
// come late. The lock of the record's stripe must be held.
func (l *ledger) outdated(rec *record, since int64) bool {
	at := max(rec.resetAt, l.anyCommanded.Load())
	return at > 0 && since < at+int64(resetTime)
}

// lost appends to the given slice the usage that a record's limits had before a loss, and returns
// the result. It uses only answers that arrived at or after `since`. The lock of the record's
// stripe must be held.
func (l *ledger) lost(rec *record, since, now int64, all []lostCount) []lostCount {
	for i := range rec.counts {
		c, known := &rec.counts[i], rec.counts[i].before
		if rec.replaced == 0 && rec.epoch < l.safe.Load() {
			known = c.last()
		}
		if known.until <= now+int64(expiryTime) || known.arrived < max(c.since, since) || l.outdated(rec, known.arrived) ||
			c.Algorithm == stint.AlgorithmConcurrency {
			continue
		}
		used := known.others
		for _, p := range l.own(rec, c, now) {
			used += p.units
		}
		if used > 0 {
			all = append(all, lostCount{known, rec, rec.claim(&c.Limit, 1), float64(used) / float64(max(c.capacity, 1))})
		}
	}
	return all
}

// own returns the units that the store has charged to this process and still counts, the oldest
// first. It leaves out units that have yet to be charged to the store. For a meter, own returns
// none, because the store's answer includes them. The lock of the record's stripe must be held.
func (l *ledger) own(rec *record, c *count, now int64) (own []part) {
	if c.unit > 0 {
		return nil
	}
	for until, units := range c.granted() {
		if begin := until - int64(c.Window) - c.part; until > now && !l.outdated(rec, begin) {
			own = append(own, part{until, units})
		}
	}
	if c.owed == nil {
		return own
	}
	left := c.uncharged(now)
	for _, p := range slices.Backward(own) {
		taken := min(left, p.units)
		left -= taken
		if own[len(own)-1].units -= taken; left == 0 {
			break
		}
		own = own[:len(own)-1]
	}
	return own
}

// lostAll returns the usage that limits had before a loss, for at most maxLost limits: those that
// have used the largest share of their capacity, in descending order of that share.
func (l *ledger) lostAll() (all []lostCount) {
	now := l.now()
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for _, rec := range s.records {
			all = l.lost(rec, 0, now, all)
			rec.replaced = 0
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b lostCount) int { return cmp.Compare(b.share, a.share) })
	return slices.Clone(all[:min(len(all), maxLost)])
}

// lostSome returns the usage of states that were replaced. It covers only answers since heardSince.
// This process has received announcements since then, so it knows of any reset.
func (l *ledger) lostSome(heardSince int64) (all []lostCount) {
	for n := len(l.replaced); n > 0; n-- {
		rec := <-l.replaced
		now := l.now()
		rec.stripe.mu.Lock()
		// If the state was reset, the announcement may still come.
		again := now-rec.replaced < int64(resetTime)
		if again {
			select {
			case l.replaced <- rec:
			default:
				again = false
			}
		} else if heardSince > 0 && rec.replaced > 0 { // if replaced is 0, lostAll handled the loss
			for _, c := range l.lost(rec, heardSince, now, nil) {
				// Only this state was replaced; limits with other names are counted in other
				// states.
				if c.claim.Limits[0].Name == rec.state {
					all = append(all, c)
				}
			}
		}
		if !again {
			rec.replaced = 0
		}
		rec.stripe.mu.Unlock()
	}
	return all
}

// requests appends to the given slice calls that make the store count at least the lost usage, and
// returns the result. It appends none if the limit has been reset in the meantime. In a sliding
// window, units granted to this process count as long as they would have without the loss. All
// units granted to other processes count as long as the newest of them.
func (l *ledger) requests(lost *lostCount, now int64, to []*driver.Call) []*driver.Call {
	defer l.unlock(l.lock([]stint.Claim{lost.claim}))
	limit := &lost.claim.Limits[0]
	c := lost.rec.of(limit, 0)
	if c == nil || lost.until <= now || l.outdated(lost.rec, lost.arrived) || lost.arrived < c.since {
		return to
	}
	c.advance(now)
	own, used, sliding := l.own(lost.rec, c, now), lost.others, c.unit == 0 && c.Algorithm == stint.AlgorithmSliding
	add := func(age int64) {
		r := stint.Request{Claims: []stint.Claim{lost.claim}, Mode: driver.ModeForce}
		r.Claims[0].Cost = min(used, stint.MaxUnits)
		r.Terms().AtLeast = true
		r.Terms().Age = time.Duration(max(age, 0)).Truncate(time.Microsecond)
		r.Terms().Refilled = time.Duration(max(now-lost.arrived, 0)).Truncate(time.Microsecond)
		to = append(to, &driver.Call{Request: r})
	}
	if sliding && used > 0 {
		add(now - lost.until + int64(limit.Window))
	}
	// Start with the newest units, because units that the store has charged since the loss count as
	// the newest.
	each := (len(own) + lostParts - 1) / lostParts
	for i, p := range slices.Backward(own) {
		used += p.units
		if newest := min(i/each*each+each, len(own)) - 1; sliding && i%each == 0 {
			add(now - own[newest].until + int64(limit.Window))
		}
	}
	if !sliding && used > 0 {
		add(now - lost.arrived)
	}
	return to
}

// restore makes the store count the lost usage again, in batches. It leaves most of the store's
// time to requests, and waits while the store is unavailable. If the store accepts nothing of a
// batch, restore skips the batch after three tries.
func (s *Stack) restore(all []lostCount) {
	sent, tries := 0, 0
	for len(all) > 0 && s.life.Err() == nil {
		var batch []*driver.Call
		n, now := 0, s.ledger.now()
		for ; n < len(all) && len(batch) < sendMost; n++ {
			batch = s.ledger.requests(&all[n], now, batch)
		}
		begin := time.Now()
		ok, asked := s.restoreSome(batch)
		if asked {
			tries++
		}
		if !ok && tries < restoreTries {
			sleep(s.life, jitter(sendPause))
			continue
		}
		sent, tries, all = sent+n, 0, all[n:]
		sleep(s.life, max(restorePause, 4*time.Since(begin)*time.Duration(s.Instances())))
	}
	if s.life.Err() == nil {
		s.config.Logger.Warn("stint: the store had lost usage; this process has restored what it knew", "limits", sent)
	}
}

// restoreSome sends a batch. It reports whether the store has accepted any of it, and whether the
// store was asked.
func (s *Stack) restoreSome(batch []*driver.Call) (ok, asked bool) {
	if len(batch) == 0 {
		return true, false
	}
	if s.store.refused(opTake) != nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(s.life, sendTime)
	defer cancel()
	s.store.take(ctx, batch, new(attempt))
	return slices.ContainsFunc(batch, func(c *driver.Call) bool { return c.Err == nil }), true
}
