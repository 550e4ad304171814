package resilience

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// debt is what the store is to be charged with under one claim: units that were granted
// without it. They are charged above capacity too.
type debt struct {
	claim stint.Claim
	units []grant
	sent  []*sending // what was sent and is not known to be charged
	back  int64      // units to give back once all of that has been charged
}

// grant is some units and when they were granted.
type grant struct{ at, units int64 }

// sending is a part of a debt on its way to the store. Its id has it charged once, however
// often it is sent.
type sending struct {
	id       string
	units    []grant
	inFlight bool
	left     atomic.Int32 // calls that are not answered
	failed   atomic.Bool
}

const (
	// maxGrants is how many instants a debt tells apart, and maxSendings in how many parts it
	// may be on its way.
	maxGrants   = 32
	maxSendings = 4
	// maxOwing is how many debts are kept.
	maxOwing = 65_536
)

// owedIDLife is how long the store remembers that a debt was charged: longer than it may
// take to learn that it was not, and to send it again.
const owedIDLife = time.Minute

// add notes units. Grants are merged to the later instant: at worst units count longer.
func (d *debt) add(at, units int64) {
	last := len(d.units) - 1
	if last >= 0 && at-d.units[last].at < int64(d.claim.Limits[0].Window)/maxGrants {
		d.units[last] = grant{max(at, d.units[last].at), d.units[last].units + units}
		return
	}
	if len(d.units) == maxGrants {
		d.units[1].units += d.units[0].units
		d.units = append(d.units[:0], d.units[1:]...)
	}
	d.units = append(d.units, grant{at, units})
}

// drop takes units off, the newest first, and returns how many there were not.
func (d *debt) drop(units int64) int64 {
	for units > 0 && len(d.units) > 0 {
		last := &d.units[len(d.units)-1]
		n := min(units, last.units)
		units -= n
		if last.units -= n; last.units == 0 {
			d.units = d.units[:len(d.units)-1]
		}
	}
	return units
}

// counting returns how many units of some grants may count in a limit. In one that refills,
// what was granted by the store before may still take up all that has been refilled.
func counting(l *stint.Limit, grants []grant, now int64) (sum int64) {
	if l.Algorithm == stint.Concurrency {
		return 0 // who holds a place keeps it, by heartbeats
	}
	for _, g := range grants {
		if now-g.at < int64(counts(l)) {
			sum += g.units
		}
	}
	return sum
}

func total(grants []grant) (sum int64) {
	for _, g := range grants {
		sum += g.units
	}
	return sum
}

// owedCall is a call that charges something that is owed.
type owedCall struct {
	stint.Call
	done  func(err error)
	ended atomic.Bool
}

// end tells what became of the call, once.
func (o *owedCall) end() {
	if o.ended.CompareAndSwap(false, true) {
		o.done(o.Err)
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

// owe has the store charged with what was granted. It reports false if too much is owed
// already.
func (l *local) owe(g *granted) bool {
	if g.id != "" {
		return l.sendAgain(g)
	}
	set := l.lock(&g.claims[0], g.claims[1:])
	defer l.unlock(set)
	ok := true
	for i := range g.claims {
		c := &g.claims[i]
		if rec := l.find(c); rec != nil && rec.resets == g.resets[i] && c.Cost > 0 {
			ok = l.add(c, rec, g.at, c.Cost) && ok
		}
	}
	return ok
}

// oweRequest is owe for a request that has just been granted.
func (l *local) oweRequest(r *stint.Request, at int64) bool {
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	ok := true
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		if rec := l.find(c); rec != nil && c.Cost > 0 {
			ok = l.add(c, rec, at, c.Cost) && ok
		}
	}
	return ok
}

// add adds units that were granted at an instant to a debt. The lock is held.
func (l *local) add(c *stint.Claim, rec *record, at, units int64) bool {
	if rec.debt == nil {
		if l.owing.Load() >= maxOwing {
			rec.uncharged = max(rec.uncharged-units, 0)
			return false
		}
		rec.debt = &debt{claim: l.keepClaim(c)}
		l.stripeOf(c).owing++
		l.owing.Add(1)
	}
	rec.debt.add(at, units)
	return true
}

func (l *local) stripeOf(c *stint.Claim) *stripe {
	subject, _ := l.identify(c)
	return &l.stripes[subject%stripes]
}

// settleDebt forgets a debt in which nothing is left. The lock is held.
func (l *local) settleDebt(rec *record) {
	if d := rec.debt; d != nil && len(d.units)+len(d.sent) == 0 {
		rec.debt = nil
		l.stripeOf(&d.claim).owing--
		l.owing.Add(-1)
	}
}

// collect returns the calls that charge what is owed under a claim and is not on its way
// already. The lock is held. Whoever gets them ends every one.
func (l *local) collect(rec *record, now int64, calls []*owedCall, back func(stint.Command)) []*owedCall {
	d := rec.debt
	if d == nil {
		return calls
	}
	ripe := 0
	for ripe < len(d.units) && d.units[ripe].at <= now {
		ripe++
	}
	if ripe > 0 && len(d.sent) < maxSendings {
		d.sent = append(d.sent, &sending{id: rand.Text(), units: slices.Clone(d.units[:ripe])})
		d.units = slices.Delete(d.units, 0, ripe)
	}
	for _, s := range slices.Clone(d.sent) {
		if !s.inFlight {
			calls = l.send(rec, d, s, now, calls, back)
		}
	}
	return calls
}

// send returns the calls that charge a sending.
func (l *local) send(rec *record, d *debt, s *sending, now int64, calls []*owedCall, back func(stint.Command)) []*owedCall {
	requests := s.requests(&d.claim, now)
	s.inFlight = true
	s.failed.Store(false)
	s.left.Store(int32(len(requests)))
	for _, r := range requests {
		o := &owedCall{Call: stint.Call{Request: r}}
		o.done = func(err error) {
			if _, invalid := errors.AsType[*stint.InvalidError](err); err != nil && !invalid { // which would fail for ever
				s.failed.Store(true)
			}
			if s.left.Add(-1) == 0 {
				set := l.lock(&d.claim, nil)
				l.sent(rec, d, s, now, back)
				l.unlock(set)
			}
		}
		o.Call.Done = o.end
		calls = append(calls, o)
	}
	if len(requests) == 0 { // all of it has expired
		l.sent(rec, d, s, now, back)
	}
	return calls
}

// requests are those that charge a sending: one, if its limits count the same of it.
func (s *sending) requests(c *stint.Claim, now int64) []stint.Request {
	costs := make([]int64, len(c.Limits))
	same := true
	for k := range c.Limits {
		costs[k] = min(counting(&c.Limits[k], s.units, now), stint.MaxUnits)
		same = same && costs[k] == costs[0]
	}
	request := func(limits []stint.Limit, cost int64, id string) stint.Request {
		claim := *c
		claim.Limits, claim.Cost = limits, cost
		return stint.Request{Claim: claim, ID: id, IDLife: owedIDLife, Mode: stint.Force}
	}
	if same && costs[0] > 0 {
		return []stint.Request{request(c.Limits, costs[0], s.id)}
	}
	var out []stint.Request
	for k := range c.Limits {
		if costs[k] > 0 {
			out = append(out, request(c.Limits[k:k+1], costs[k], s.id+"/"+strconv.Itoa(k)))
		}
	}
	return out
}

// sent ends a sending. The lock is held.
func (l *local) sent(rec *record, d *debt, s *sending, now int64, back func(stint.Command)) {
	s.inFlight = false
	at := slices.Index(d.sent, s)
	if at < 0 || s.failed.Load() {
		return // a reset has forgotten it, or it is sent again
	}
	d.sent = slices.Delete(d.sent, at, at+1)
	l.charged(rec, total(s.units), now)
	if d.back > 0 && len(d.sent) == 0 {
		for k := range d.claim.Limits {
			if counting(&d.claim.Limits[k], s.units, now) > 0 {
				one := d.claim
				one.Limits = d.claim.Limits[k : k+1]
				back(giveBackOf(&one, d.back))
			}
		}
		d.back = 0
	}
	l.settleDebt(rec)
}

// forget drops what is known and owed under a claim. It returns what is on its way to be
// charged.
func (l *local) forget(c *stint.Claim) []*sending {
	set := l.lock(c, nil)
	defer l.unlock(set)
	rec := l.find(c)
	if rec == nil {
		return nil
	}
	rec.resets++
	rec.uncharged, rec.others = 0, make([]others, len(rec.others))
	d := rec.debt
	if d == nil {
		return nil
	}
	sent := slices.DeleteFunc(d.sent, func(s *sending) bool { return !s.inFlight })
	d.units, d.sent, d.back = nil, nil, 0
	l.settleDebt(rec)
	return sent
}

const (
	// chargeTime is how long charging what is owed may take, and chargeMost how much of it
	// goes at once.
	chargeTime = time.Second
	chargeMost = 128
	// chargeEvery is how often it is tried; what is asked about a subject carries what is
	// owed for it before.
	chargeEvery = 100 * time.Millisecond
	chargePause = time.Second
)

// collectAll returns calls that charge what is owed, of as many claims as may go at once.
func (l *local) collectAll(now int64, back func(stint.Command)) (calls []*owedCall) {
	calls = l.collectNamed(now)
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		if s.owing > 0 {
			for _, rec := range s.records {
				if calls = l.collect(rec, now, calls, back); len(calls) >= chargeMost {
					break
				}
			}
		}
		s.mu.Unlock()
		if len(calls) >= chargeMost {
			break
		}
	}
	return calls
}

// carry returns what is owed under the claims of a request.
func (l *local) carry(r *stint.Request, now int64, back func(stint.Command)) (calls []*owedCall) {
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	for i := range 1 + len(r.And) {
		if rec := l.find(r.ClaimAt(i)); rec != nil {
			calls = l.collect(rec, now, calls, back)
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
		if _, quick := f.chargeSome(f.life); !quick {
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
	if f.charging.CompareAndSwap(false, true) {
		f.run(f.chargeOwed)
	}
}

// sayDropped tells of what will not be charged.
func (f *Fallback) sayDropped() {
	if f.dropped.Load() > 0 && sayAgain(&f.news.nextDropped, f.now()) {
		f.config.Logger.Warn("stint: not everything that was admitted without the store is charged to it afterwards",
			"decisions", f.dropped.Swap(0), "subjects_kept", maxOwing)
	}
}

// drain charges what is owed until nothing is, the store fails, or the context ends.
func (f *Fallback) drain(ctx context.Context) {
	for f.local.owing.Load() > 0 && ctx.Err() == nil {
		n, ok := f.chargeSome(ctx)
		if !ok {
			return
		}
		if n == 0 { // it is on its way, or not due yet
			sleep(ctx, time.Millisecond)
		}
	}
}

// chargeSome charges a batch. It returns how much was sent, and whether the store did so
// quickly.
func (f *Fallback) chargeSome(ctx context.Context) (n int, quick bool) {
	calls := f.local.collectAll(f.now(), f.giveBack)
	if len(calls) == 0 {
		return 0, true
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, chargeTime)
	defer cancel()
	batch := make([]*stint.Call, len(calls))
	for i, o := range calls {
		o.Deadline = begin.Add(chargeTime)
		batch[i] = &o.Call
	}
	f.batch(ctx, batch)
	failed := false
	for _, o := range calls {
		failed = failed || o.Err != nil
		o.end()
	}
	return len(calls), !failed && time.Since(begin) < DefaultBudget
}

// granted is what a caller was granted without the store.
type granted struct {
	at     int64
	charge uint64 // local
	id     string // of the request
	life   time.Duration
	claims []stint.Claim
	resets []uint32 // of their records
}

// grant returns a copy of what a request was granted.
func (l *local) grant(r *stint.Request, charge uint64, at int64) *granted {
	n := 1 + len(r.And)
	g := &granted{at: at, charge: charge, id: r.ID, life: r.Life(), claims: make([]stint.Claim, n), resets: make([]uint32, n)}
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	for i := range g.claims {
		g.claims[i] = l.keepClaim(r.ClaimAt(i))
		if rec := l.find(&g.claims[i]); rec != nil {
			g.resets[i] = rec.resets
		}
	}
	return g
}

// counted notes that the store counts what was granted.
func (l *local) counted(g *granted, now int64) {
	set := l.lock(&g.claims[0], g.claims[1:])
	defer l.unlock(set)
	for i := range g.claims {
		if rec := l.find(&g.claims[i]); rec != nil && rec.resets == g.resets[i] {
			l.charged(rec, g.claims[i].Cost, now)
		}
	}
}

// named are grants of requests with an ID. They are sent again under that ID, which has
// them charged once, until it is known that the store has counted them.
type named struct {
	mu   sync.Mutex
	list []*granted
}

func (l *local) sendAgain(g *granted) bool {
	l.named.mu.Lock()
	defer l.named.mu.Unlock()
	if l.owing.Load() >= maxOwing {
		return false
	}
	l.owing.Add(1)
	l.named.list = append(l.named.list, g)
	return true
}

// collectNamed returns the calls that send grants again.
func (l *local) collectNamed(now int64) (calls []*owedCall) {
	l.named.mu.Lock()
	defer l.named.mu.Unlock()
	for len(l.named.list) > 0 && len(calls) < chargeMost {
		g := l.named.list[0]
		l.named.list = l.named.list[1:]
		o := &owedCall{Call: stint.Call{Request: stint.Request{
			Claim: g.claims[0], And: g.claims[1:], ID: g.id, IDLife: g.life, Mode: stint.Force}}}
		o.done = func(err error) {
			l.owing.Add(-1)
			if _, failed := errors.AsType[*stint.StoreError](err); failed && now-g.at < int64(g.life) {
				l.sendAgain(g)
				return
			}
			l.counted(g, now)
		}
		calls = append(calls, o)
	}
	return calls
}
