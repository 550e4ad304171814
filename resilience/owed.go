package resilience

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// grant is some units that were granted without the store, and for which instant.
type grant struct{ at, units int64 }

// sending is what is owed and on its way to the store. Its requests are the same however often
// they are sent, and have IDs: each is charged once.
type sending struct {
	requests []stint.Request
	parts    []sentPart
	at       int64 // when it was granted, or for when

	// Of a single request, one with an ID or a booking: its local charge, until when the store
	// remembers the ID, and what was settled meanwhile.
	charge      uint64
	until       int64
	settlements []settlement

	inFlight bool
	left     atomic.Int32 // calls that are not answered
	failed   atomic.Bool
	decision stint.Decision // of the first request
}

// sentPart is what a sending charges to a limit. Back is what is given back afterwards.
type sentPart struct {
	rec         *record
	limit       *known
	units, back int64
}

const (
	// maxGrants is how many instants are told apart in what is owed under a limit.
	maxGrants = 32
	// maxSendings is how many sendings of a subject are on their way at once, without those
	// of requests that have an ID.
	maxSendings = 8
	// maxOwing is how many subjects may owe something.
	maxOwing = 65_536
	// owedIDLife is how long the store remembers that something owed was charged: longer than
	// it takes to learn that it was not, and to send it again.
	owedIDLife = 30 * time.Second
)

// owe notes units. Grants are merged to the later instant: at worst units count longer.
func (k *known) owe(at, units int64) {
	near := int64(k.limit.Window) / maxGrants
	for i := range k.grants {
		if g := &k.grants[i]; at-g.at < near && g.at-at < near {
			g.at, g.units = max(g.at, at), g.units+units
			return
		}
	}
	if len(k.grants) == maxGrants {
		k.grants[1].units += k.grants[0].units
		k.grants = slices.Delete(k.grants, 0, 1)
	}
	k.grants = append(k.grants, grant{at, units})
}

// drop takes units off what is owed, the newest first, and returns how many there were not.
func (k *known) drop(units int64) int64 {
	for units > 0 && len(k.grants) > 0 {
		last := &k.grants[len(k.grants)-1]
		n := min(units, last.units)
		units -= n
		k.uncharged = max(k.uncharged-n, 0)
		if last.units -= n; last.units == 0 {
			k.grants = k.grants[:len(k.grants)-1]
		}
	}
	return units
}

// owedCall is a call that charges something that is owed.
type owedCall struct {
	stint.Call
	sending *sending
	done    func(*owedCall)
	ended   atomic.Bool
}

// end tells what became of the call, once.
func (o *owedCall) end() {
	if o.ended.CompareAndSwap(false, true) {
		o.done(o)
	}
}

var errNotSent = errors.New("not sent")

// giveUp ends calls that are not sent.
func giveUp(owed []*owedCall) {
	for _, o := range owed {
		o.Err = errNotSent
		o.end()
	}
}

// granted is what a caller was granted without the store.
type granted struct {
	at     int64
	charge uint64 // local
	id     string // of the request
	life   time.Duration
	claims []stint.Claim
	resets uint64 // how many there had been
}

// grant returns a copy of what a request was granted.
func (l *local) grant(r *stint.Request, charge uint64, at int64) *granted {
	g := &granted{at: at, charge: charge, id: r.ID, life: r.Life(), claims: make([]stint.Claim, 1+len(r.And)), resets: l.resets.Load()}
	for i := range g.claims {
		g.claims[i] = l.keepClaim(r.ClaimAt(i))
	}
	return g
}

// each calls f with the limits of what was granted, but for those that were reset since. The
// locks are held.
func (l *local) each(g *granted, f func(rec *record, k *known, c *stint.Claim)) {
	for i := range g.claims {
		c := &g.claims[i]
		rec := l.find(c)
		if c.Cost == 0 {
			continue
		}
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil && k.reset <= g.resets {
				f(rec, k, c)
			}
		}
	}
}

// owe has the store charged with what was granted. It reports false if too much is owed
// already. A request with an ID is sent again under that ID, and a booking is one in the store
// too; both can be amended there afterwards.
func (l *local) owe(g *granted, now int64) (ok bool) {
	set := l.lock(&g.claims[0], g.claims[1:])
	defer l.unlock(set)
	ok = true
	if g.id == "" && g.at > now {
		g.id, g.life = rand.Text(), owedIDLife
	}
	if g.id == "" || now-g.at >= int64(g.life) {
		l.each(g, func(rec *record, k *known, c *stint.Claim) {
			ok = l.add(rec, k, g.at, c.Cost) && ok
		})
		return ok
	}
	s := &sending{charge: g.charge, until: g.at + int64(g.life), at: g.at, requests: []stint.Request{{
		Claim: g.claims[0], And: g.claims[1:], ID: g.id, IDLife: g.life, Mode: stint.Force}}}
	l.each(g, func(rec *record, k *known, c *stint.Claim) {
		s.parts = append(s.parts, sentPart{rec: rec, limit: k, units: c.Cost})
	})
	switch home := l.find(&g.claims[0]); {
	case len(s.parts) == 0 || home == nil: // all of it was reset
	case l.owing.Load() >= maxOwing:
		for _, p := range s.parts {
			p.limit.uncharged = max(p.limit.uncharged-p.units, 0)
		}
		return false
	default:
		l.owes(home)
		home.sent = append(home.sent, s)
	}
	return true
}

// oweRequest is owe for a request without an ID that has just been granted.
func (l *local) oweRequest(r *stint.Request, at int64) (ok bool) {
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	ok = true
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		rec := l.find(c)
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil && c.Cost > 0 {
				ok = l.add(rec, k, at, c.Cost) && ok
			}
		}
	}
	return ok
}

// add adds units to what is owed under a limit. The lock is held.
func (l *local) add(rec *record, k *known, at, units int64) bool {
	if k.limit.Algorithm == stint.Concurrency {
		return true // whoever holds a place tells the store by heartbeats
	}
	if !rec.owing && l.owing.Load() >= maxOwing {
		k.uncharged = max(k.uncharged-units, 0)
		return false
	}
	l.owes(rec)
	k.owe(at, units)
	return true
}

// owes notes that a record has something to charge, and settled that it may have no more.
func (l *local) owes(rec *record) {
	if !rec.owing {
		rec.owing = true
		l.owing.Add(1)
	}
}

func (l *local) settled(rec *record) {
	if rec.owing && len(rec.sent) == 0 && !slices.ContainsFunc(rec.limits, func(k *known) bool { return len(k.grants) > 0 }) {
		rec.owing = false
		l.owing.Add(-1)
	}
}

// collect returns the calls that charge what a record owes and is not on its way
// already. The lock is held. Whoever gets them ends every one.
func (l *local) collect(rec *record, now int64, calls []*owedCall) []*owedCall {
	if !rec.owing {
		return calls
	}
	plain := 0
	for _, s := range slices.Clone(rec.sent) {
		if s.charge == 0 {
			plain++
		}
		if !s.inFlight {
			calls = l.send(rec, s, now, calls)
		}
	}
	if plain < maxSendings {
		if s := rec.makeSending(now); s != nil {
			rec.sent = append(rec.sent, s)
			calls = l.send(rec, s, now, calls)
		}
	}
	l.settled(rec)
	return calls
}

// makeSending makes a sending of all that is owed; nil if that is nothing. Limits that are
// charged the same go into one request.
func (r *record) makeSending(now int64) *sending {
	s := &sending{at: now}
	id := rand.Text()
	add := func(k *known, cost int64) {
		for i := range s.requests {
			if q := &s.requests[i]; q.Cost == cost && len(q.Limits) < stint.MaxLimits {
				q.Limits = append(q.Limits, k.limit)
				return
			}
		}
		s.requests = append(s.requests, stint.Request{
			Claim:  stint.Claim{Subject: r.subject, Scope: r.scope, Limits: []stint.Limit{k.limit}, Cost: cost},
			ID:     id + "/" + strconv.Itoa(len(s.requests)),
			IDLife: owedIDLife, Mode: stint.Force,
		})
	}
	for _, k := range r.limits {
		sum, all := int64(0), int64(0)
		for _, g := range k.grants {
			if all += g.units; now-g.at < int64(counts(&k.limit)) {
				sum += g.units
			}
		}
		if sum > 0 {
			add(k, min(sum, stint.MaxUnits))
		}
		if all > 0 {
			s.parts = append(s.parts, sentPart{rec: r, limit: k, units: all})
		}
		k.grants = nil
	}
	if len(s.parts) == 0 {
		return nil
	}
	return s
}

// send returns the calls that charge a sending. The lock of its record is held.
func (l *local) send(rec *record, s *sending, now int64, calls []*owedCall) []*owedCall {
	if s.charge != 0 && now >= s.until { // the store may have forgotten the ID
		q := &s.requests[0]
		q.ID, q.IDLife, s.until = rand.Text(), owedIDLife, now+int64(owedIDLife)
	}
	s.inFlight = true
	s.failed.Store(false)
	first := len(calls)
	for i := range s.requests {
		r, ok := s.requests[i], true
		if ahead := time.Duration(s.at - now).Truncate(time.Microsecond); ahead > 0 {
			r.MaxWait = ahead
		} else if r, ok = stillCounting(r, now-s.at); !ok {
			continue
		}
		o := &owedCall{Call: stint.Call{Request: r}, sending: s}
		o.done = func(o *owedCall) {
			// What is invalid would fail for ever.
			if _, invalid := errors.AsType[*stint.InvalidError](o.Err); o.Err != nil && !invalid {
				s.failed.Store(true)
			} else if i == 0 {
				s.decision = o.Decision
			}
			if s.left.Add(-1) == 0 {
				set := l.lock(&s.requests[0].Claim, s.requests[0].And)
				defer l.unlock(set)
				l.sent(rec, s, now)
			}
		}
		o.Call.Done = o.end
		calls = append(calls, o)
	}
	s.left.Store(int32(len(calls) - first))
	if len(calls) == first { // all of it has expired
		rec.sent = slices.DeleteFunc(rec.sent, func(o *sending) bool { return o == s })
		for _, p := range s.parts {
			if p.rec == rec { // that of others, whose locks are not held, expires by itself
				p.limit.uncharged = max(p.limit.uncharged-p.units, 0)
			}
		}
	}
	return calls
}

// stillCounting returns a request with those of its limits in which something so old may count,
// and reports whether there are any.
func stillCounting(r stint.Request, age int64) (stint.Request, bool) {
	old := func(l stint.Limit) bool { return age >= int64(counts(&l)) }
	var claims []stint.Claim
	for i := range 1 + len(r.And) {
		c := *r.ClaimAt(i)
		if slices.ContainsFunc(c.Limits, old) {
			c.Limits = slices.DeleteFunc(slices.Clone(c.Limits), old)
		}
		if len(c.Limits) > 0 {
			claims = append(claims, c)
		}
	}
	if len(claims) == 0 {
		return r, false
	}
	r.Claim, r.And = claims[0], claims[1:]
	return r, true
}

// sent ends a sending. The lock is held.
func (l *local) sent(rec *record, s *sending, now int64) {
	s.inFlight = false
	at := slices.Index(rec.sent, s)
	if at < 0 || s.failed.Load() {
		return // a reset has forgotten it, or it is sent again
	}
	rec.sent = slices.Delete(rec.sent, at, at+1)
	step := l.step.Add(1)
	for _, p := range s.parts {
		p.limit.charged(p.units, now, step, s)
		if p.back > 0 && now-s.at < int64(counts(&p.limit.limit)) { // else it was not charged
			l.giveBack(p.rec, &p.limit.limit, p.back)
		}
	}
	if d := &s.decision; s.charge != 0 && d.Charge.ID != 0 && !d.Repeat {
		l.twins.add(s.charge, twin{store: d.Charge})
		for _, t := range s.settlements {
			l.settle(&d.Charge, t)
		}
	}
	l.settled(rec)
}

// counted notes that the store counts what was granted.
func (l *local) counted(g *granted, now int64) {
	set := l.lock(&g.claims[0], g.claims[1:])
	defer l.unlock(set)
	step := l.step.Add(1)
	l.each(g, func(_ *record, k *known, c *stint.Claim) {
		k.charged(c.Cost, now, step, nil)
	})
}

// settleOwed changes what is owed for a local charge, or a part of it, to its true cost, at an
// instant and its wall time. What may have been charged already is given back.
func (l *local) settleOwed(c *stint.Charge, cost, now, wall int64) {
	set := l.lock(&c.Claim, c.And())
	defer l.unlock(set)
	for i := range 1 + len(c.And()) { // a single request is owed under its first claim
		if rec := l.find(c.ClaimAt(i)); rec != nil {
			for _, s := range rec.sent {
				if s.charge == c.ID {
					s.settlements = append(s.settlements, settlement{*c, cost})
					return
				}
			}
		}
	}
	for i := range 1 + len(c.And()) {
		if claim := c.ClaimAt(i); claim.Cost > 0 && claim.Cost != cost {
			l.adjust(claim, cost-claim.Cost, c.At, now, wall)
		}
	}
}

// adjust changes what is owed under a claim that was charged at an instant. The lock is held.
func (l *local) adjust(c *stint.Claim, units, at, now, wall int64) {
	rec := l.record(c, now)
	for j := range c.Limits {
		k := rec.limit(&c.Limits[j])
		if units > 0 {
			k.grant(units, now, now)
			l.add(rec, k, now, units)
			continue
		}
		charged := k.drop(-units)
		if charged == 0 {
			continue
		}
		if sent := rec.sending(k); sent != nil {
			sent.back += charged
		} else if n := stillIn(&k.limit, charged, at, wall); n > 0 {
			l.giveBack(rec, &k.limit, n)
		}
	}
	l.settled(rec)
}

// giveBack gives units of a limit back to the store.
func (l *local) giveBack(rec *record, limit *stint.Limit, units int64) {
	l.command(stint.Command{Kind: stint.GiveBack, Subject: rec.subject, Scope: rec.scope, Limits: []stint.Limit{*limit}, Units: units})
}

// stillIn is how many units that were charged at an instant surely still count in a limit.
func stillIn(l *stint.Limit, units, at, now int64) int64 {
	window := l.Window.Microseconds()
	switch age := max(now-at, 0); {
	case l.Algorithm == stint.Concurrency || age >= window || l.Algorithm == stint.Fixed && at/window != now/window:
		return 0
	case l.Algorithm == stint.Bucket || l.HasMeter():
		units -= int64(math.Ceil(float64(age) / float64(window) * float64(l.Max)))
	}
	return max(units, 0)
}

// sending returns what charges a limit and is not known to be charged; nil if there is nothing.
func (r *record) sending(k *known) *sentPart {
	for _, s := range r.sent {
		for i := range s.parts {
			if s.parts[i].limit == k {
				return &s.parts[i]
			}
		}
	}
	return nil
}

// forget drops what is known and owed of limits that are reset. It returns what is on its way
// to be charged.
func (l *local) forget(c *stint.Command, now int64) (inFlight []*sending) {
	claim := stint.Claim{Subject: c.Subject, Scope: c.Scope}
	set := l.lock(&claim, nil)
	defer l.unlock(set)
	reset := l.resets.Add(1)
	rec := l.find(&claim)
	if rec == nil {
		return nil
	}
	rec.resetAt = now
	for i := range c.Limits {
		if k := rec.of(&c.Limits[i]); k != nil {
			*k = known{limit: k.limit, reset: reset}
		}
	}
	for _, s := range rec.sent {
		s.parts = slices.DeleteFunc(s.parts, func(p sentPart) bool {
			return p.rec == rec && slices.ContainsFunc(c.Limits, func(l stint.Limit) bool { return l.SameID(&p.limit.limit) })
		})
		if s.inFlight {
			inFlight = append(inFlight, s)
		}
	}
	rec.sent = slices.DeleteFunc(rec.sent, func(s *sending) bool { return len(s.parts) == 0 })
	l.settled(rec)
	return inFlight
}

const (
	// chargeTime is how long charging what is owed may take, and chargeMost how much of it
	// goes at once.
	chargeTime = time.Second
	chargeMost = 128
	// chargeEvery is how often it is tried, and chargePause after a failure or by a slow store;
	// what is asked about a subject carries what is owed for it before.
	chargeEvery = 100 * time.Millisecond
	chargePause = time.Second
)

// collectSome returns calls that charge what is owed, of as many subjects as may go at once,
// where the last ones ended.
func (l *local) collectSome(now int64) (calls []*owedCall) {
	for range l.stripes {
		s := &l.stripes[l.next.Add(1)%stripes]
		s.mu.Lock()
		for _, rec := range s.records {
			if calls = l.collect(rec, now, calls); len(calls) >= chargeMost {
				break
			}
		}
		s.mu.Unlock()
		if len(calls) >= chargeMost {
			l.next.Add(^uint32(0)) // there may be more
			break
		}
	}
	return calls
}

// carry returns what is owed under the claims of a request.
func (l *local) carry(r *stint.Request, now int64) (calls []*owedCall) {
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	for i := range 1 + len(r.And) {
		if rec := l.find(r.ClaimAt(i)); rec != nil {
			calls = l.collect(rec, now, calls)
		}
	}
	return calls
}

// chargeOwed runs while something is owed, and charges it to the store in one batch at a
// time, while that answers quickly.
func (f *Fallback) chargeOwed() {
	for pause := chargeEvery; f.local.owing.Load() > 0; {
		if sleep(f.life, jitter(pause)); f.life.Err() != nil {
			break
		}
		pause = chargeEvery
		begin := time.Now()
		if n, ok := f.chargeSome(f.life); n > 0 && !ok || time.Since(begin) > f.budget() {
			pause = chargePause
		}
		f.sayDropped()
	}
	f.charging.Store(false)
	if f.local.owing.Load() > 0 && f.life.Err() == nil {
		f.startCharging() // somebody owes since we looked
	}
}

func (f *Fallback) startCharging() {
	if !f.charging.Load() && f.charging.CompareAndSwap(false, true) {
		f.run(f.chargeOwed)
	}
}

// sayDropped tells of what will not be charged.
func (f *Fallback) sayDropped() {
	if n := f.dropped.Load() + f.errands.dropped.Load(); n > 0 && sayAgain(&f.news.nextDropped, f.now()) {
		f.config.Logger.Warn("stint: not everything that was admitted without the store is charged to it or given back afterwards",
			"decisions", f.dropped.Swap(0)+f.errands.dropped.Swap(0), "kept", maxOwing)
	}
}

// drain charges what is owed until nothing is, or the context ends.
func (f *Fallback) drain(ctx context.Context) {
	for f.local.owing.Load() > 0 && ctx.Err() == nil {
		if n, ok := f.chargeSome(ctx); n == 0 || !ok { // it is on its way, or the store fails
			sleep(ctx, 10*time.Millisecond)
		}
	}
}

// chargeSome charges a batch. It returns how much was sent, and whether any of it was charged.
func (f *Fallback) chargeSome(ctx context.Context) (n int, ok bool) {
	calls := f.local.collectSome(f.now())
	if len(calls) == 0 {
		return 0, true
	}
	ctx, cancel := context.WithTimeout(ctx, chargeTime)
	defer cancel()
	deadline := time.Now().Add(chargeTime)
	batch := make([]*stint.Call, len(calls))
	for i, o := range calls {
		o.Deadline = deadline
		batch[i] = &o.Call
	}
	f.batch(ctx, batch)
	for _, o := range calls {
		ok = ok || o.Err == nil
		o.end()
	}
	return len(calls), ok
}
