package resilience

import (
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// sending is what is owed and being charged. Its requests are the same however often they are sent,
// and have IDs: each is charged once.
type sending struct {
	requests []stint.Request
	parts    []sentPart
	at       int64 // when it was granted, or for when

	// Of a request with an ID, or a booking: its local charge, until when the store remembers the
	// ID, and what was settled meanwhile.
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

// owedCall is a call that charges something that is owed.
type owedCall struct {
	driver.Call
	sending *sending
	done    func(*owedCall)
	ended   atomic.Bool
}

// end reports the outcome of the call, once.
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

// collect returns the calls that charge what a record owes and is not being charged already. The
// lock is held. The caller has to end every one of them.
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
	l.clearOwing(rec)
	return calls
}

// makeSending makes a sending of all that is owed; nil if that is nothing. Limits with the same
// cost share a request.
func (r *record) makeSending(now int64) *sending {
	s := &sending{at: now}
	id := rand.Text()
	add := func(k *known, cost int64) {
		for i := range s.requests {
			if q := &s.requests[i]; q.Claims[0].Cost == cost && len(q.Claims[0].Limits) < stint.MaxLimits {
				q.Claims[0].Limits = append(q.Claims[0].Limits, k.limit)
				return
			}
		}
		s.requests = append(s.requests, stint.Request{
			Claims: []stint.Claim{{Subject: r.subject, Scope: r.scope, Limits: []stint.Limit{k.limit}, Cost: cost}},
			ID:     id + "/" + strconv.Itoa(len(s.requests)),
			IDLife: owedIDLife, Mode: driver.ModeForce,
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
		o := &owedCall{Call: driver.Call{Request: r}, sending: s}
		o.done = func(o *owedCall) {
			// What is invalid would always fail.
			if _, invalid := errors.AsType[*stint.InvalidError](o.Err); o.Err != nil && !invalid {
				s.failed.Store(true)
			} else if i == 0 {
				s.decision = o.Decision
			}
			if s.left.Add(-1) == 0 {
				set := l.lock(s.requests[0].Claims)
				defer l.unlock(set)
				l.finish(rec, s, now)
			}
		}
		o.Call.Done = o.end
		calls = append(calls, o)
	}
	s.left.Store(int32(len(calls) - first))
	if len(calls) == first { // all of it has expired
		rec.sent = slices.DeleteFunc(rec.sent, func(o *sending) bool { return o == s })
		for _, p := range s.parts {
			if p.rec == rec { // other records, whose locks are not held, expire by themselves
				p.limit.uncharged = max(p.limit.uncharged-p.units, 0)
			}
		}
	}
	return calls
}

// stillCounting returns a request with those of its limits in which units of that age may count,
// and reports whether there are any.
func stillCounting(r stint.Request, age int64) (stint.Request, bool) {
	old := func(l stint.Limit) bool { return age >= int64(counts(&l)) }
	var claims []stint.Claim
	for i := range r.Claims {
		claim := &r.Claims[i]
		c := *claim
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
	r.Claims = claims
	return r, true
}

// finish ends a sending. The lock is held.
func (l *local) finish(rec *record, s *sending, now int64) {
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
	if d := &s.decision; s.charge != 0 && d.Charge.Data().ID != 0 && !d.Repeat {
		l.counterparts.add(s.charge, counterpart{store: d.Charge})
		for _, t := range s.settlements {
			l.settle(&d.Charge, t)
		}
	}
	l.clearOwing(rec)
}

// collectSome returns calls that charge what is owed, of as many subjects as fit in a batch, going
// on where the last batch ended.
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

// carry returns calls that charge what is owed under the claims of a request.
func (l *local) carry(r *stint.Request, now int64) (calls []*owedCall) {
	set := l.lock(r.Claims)
	defer l.unlock(set)
	for i := range r.Claims {
		if rec := l.find(&r.Claims[i]); rec != nil {
			calls = l.collect(rec, now, calls)
		}
	}
	return calls
}
