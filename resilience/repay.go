package resilience

import (
	"cmp"
	crypto "crypto/rand"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// group is what was granted without the store at about the same time, in units of each limit of a
// record, and is not being charged yet.
type group struct {
	from, at int64
	units    []int64
}

const (
	// maxGroups is how many groups a record has, and maxDebts how many debts before the next groups
	// become debts, or requests with an id have one of their own.
	maxGroups = 16
	maxDebts  = 256
	// maxNamed is how many request ids a record remembers, as a store does.
	maxNamed = 1000
	// The store remembers for so long that a debt was charged.
	minDebtLife = 30 * time.Second
	maxDebtLife = time.Hour
)

// debt is something that the store has to be charged with, in one request. It has an ID, so that it
// is charged once, however often it is sent. What has an ID of its own, or whose answer is late, is
// a debt of its own, and can be amended in the store afterwards.
type debt struct {
	home     *record
	subjects []stint.Claim // of its claims and of its home, for their locks
	charge   uint64        // the local one; 0 of a group
	id       string
	life     time.Duration
	claims   []stint.Claim
	at       int64  // when it was granted
	resets   uint64 // how many resets there had been
	state    debtState
	flying   bool          // it is being charged
	renamed  bool          // the store may have forgotten its ID, and it has another
	refilled time.Duration // for how long meters had given it back when it was sent last
	repeated bool          // of a request id,
	refunded bool          // which its refund forgets
	back     []giveBackUnits
	// stored is the store's charge, once it made one, and pending are amendments until then.
	stored  stint.Charge
	pending []amendment
}

type debtState uint8

const (
	lateDebt debtState = iota // whether the store has charged it is not known yet
	dueDebt
	paidDebt
	goneDebt // it has left its windows, or is owed together with others
)

// amendment is one of a local charge, or of a part of it. Done, if it is not nil, is called when
// the store has made it.
type amendment struct {
	charge stint.Charge
	stint.Amendment
	done func(stint.Amended)
	most int64 // what limits that refill are charged at most
}

// giveBackUnits is what is to be given back to the store, when it was granted, and the generation
// of the state that it was charged to; 0 if that is not known.
type giveBackUnits struct {
	stint.Command
	at         int64
	generation uint32
}

// back is units of a limit that are to be given back.
func back(rec *record, l *stint.Limit, units, at int64, generation uint32) giveBackUnits {
	return giveBackUnits{Command: stint.Command{Kind: stint.CommandGiveBack, Subject: rec.subject, Scope: rec.scope,
		Limits: []stint.Limit{*l}, Units: units}, at: at, generation: generation}
}

// entries finds the debts of local charges. When there are too many, the oldest is forgotten.
type entries struct {
	mu    sync.Mutex
	of    map[uint64]*debt
	order []uint64 // a ring, once it is full
	next  int
	most  int
}

func (e *entries) add(o *debt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of[o.charge] = o
	if len(e.order) < e.most {
		e.order = append(e.order, o.charge)
		return
	}
	delete(e.of, e.order[e.next])
	e.order[e.next] = o.charge
	e.next = (e.next + 1) % e.most
}

func (e *entries) forget(charge uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, charge)
}

func (e *entries) get(charge uint64) *debt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[charge]
}

// markOwing notes that a record has something to charge, and clearOwing that it may have nothing.
func (l *ledger) markOwing(rec *record) {
	if !rec.owing {
		rec.owing = true
		rec.stripe.owing[rec] = struct{}{}
		l.owing.Add(1)
	}
}

func (l *ledger) clearOwing(rec *record) {
	rec.groups = slices.DeleteFunc(rec.groups, func(g group) bool {
		return !slices.ContainsFunc(g.units, func(n int64) bool { return n > 0 })
	})
	if rec.owing && len(rec.groups) == 0 &&
		!slices.ContainsFunc(rec.debts, func(o *debt) bool { return o.state == dueDebt }) {
		rec.owing = false
		delete(rec.stripe.owing, rec)
		l.owing.Add(-1)
	}
}

// oweTogether adds what some claims were granted at an instant, after so many resets, to what their
// subjects owe.
func (l *ledger) oweTogether(claims []stint.Claim, at int64, resets uint64) {
	for i := range claims {
		c := &claims[i]
		for j := range c.Limits {
			rec := l.find(c)
			n := rec.of(&c.Limits[j], j)
			if n != nil && n.Algorithm != stint.AlgorithmConcurrency && resets >= n.resets {
				l.owe(rec, n, c.Cost, at)
			}
		}
	}
}

// owe adds units to what is owed under a limit.
func (l *ledger) owe(rec *record, n *count, units, at int64) {
	if units > 0 {
		l.group(rec, at).units[n.index] += units
		l.markOwing(rec)
	}
}

// group returns the group of what is granted at an instant. If there are too many, two neighbors
// are merged, as of the later instant: at worst units count longer, in some window. So it is those
// with which that is the least part of it.
func (l *ledger) group(rec *record, at int64) *group {
	near := int64(stint.MaxWindow)
	for i := range rec.counts {
		near = min(near, rec.counts[i].part)
	}
	for i := range rec.groups {
		if g := &rec.groups[i]; at-g.from < near && g.at-at < near {
			g.from, g.at = min(g.from, at), max(g.at, at)
			g.grow(len(rec.counts))
			return g
		}
	}
	if len(rec.groups) == maxGroups {
		best, least := 0, math.Inf(1)
		for i := range rec.groups[:maxGroups-1] {
			longer := 0.0
			for k := range rec.counts {
				if window := int64(rec.counts[k].Window); at-rec.groups[i+1].at < window {
					longer = max(longer, float64(rec.groups[i+1].at-rec.groups[i].from)/float64(window))
				}
			}
			if longer < least {
				best, least = i, longer
			}
		}
		a, b := &rec.groups[best], &rec.groups[best+1]
		b.grow(len(rec.counts))
		for i, n := range a.units {
			b.units[i] += n
		}
		b.from, b.at = min(a.from, b.from), max(a.at, b.at)
		rec.groups = slices.Delete(rec.groups, best, best+1)
	}
	i := len(rec.groups) // they are in order
	for i > 0 && rec.groups[i-1].at > at {
		i--
	}
	rec.groups = slices.Insert(rec.groups, i, group{from: at, at: at})
	rec.groups[i].grow(len(rec.counts))
	return &rec.groups[i]
}

func (g *group) grow(n int) {
	for len(g.units) < n {
		g.units = append(g.units, 0)
	}
}

// take takes up to so many units of a limit off the group.
func (g *group) take(n *count, units int64) int64 {
	if n.index >= len(g.units) {
		return 0
	}
	units = min(units, g.units[n.index])
	g.units[n.index] -= units
	n.repaid(units, g.at, 0, 0, 0, 0)
	return units
}

// forgive takes units that were granted at an instant off what is owed. It appends those that the
// store has been charged with.
func (l *ledger) forgive(rec *record, n *count, units, at int64, backs []giveBackUnits) []giveBackUnits {
	const near = int64(time.Millisecond)
	for i := range rec.groups {
		if g := &rec.groups[i]; g.from <= at+near && at-near <= g.at {
			units -= g.take(n, units)
		}
	}
	if units == 0 {
		return backs
	}
	for _, o := range rec.debts {
		if o.charge != 0 || o.state != dueDebt || o.at < at-near || !hasLimit(o.claims[0].Limits, &n.Limit) {
			continue
		}
		if part := min(units, o.claims[0].Cost-o.backOf(&n.Limit)); part > 0 {
			o.back = append(o.back, back(rec, &n.Limit, part, at, 0))
			units -= part
		}
	}
	if units == 0 {
		return backs
	}
	generation := uint32(0)
	if n.owed != nil {
		generation = n.owed.generation
	}
	return append(backs, back(rec, &n.Limit, units, at, generation))
}

func hasLimit(limits []stint.Limit, l *stint.Limit) bool {
	return slices.ContainsFunc(limits, func(m stint.Limit) bool { return contract.SameID(&m, l) })
}

// oweAlone has a debt of its own for what a request was granted. One that has no ID is late.
func (l *ledger) oweAlone(r *stint.Request, charge uint64, late bool, now int64) *debt {
	o := &debt{charge: charge, at: now, resets: l.resets.Load(), claims: copied(r.Claims),
		home: l.record(&r.Claims[0], now)}
	o.subjects = append(slices.Clone(o.claims), o.home.claim())
	if r.Claims[0].Cost > 0 { // else a store does not remember the ID
		o.id, o.life = r.ID, contract.Life(r)
	}
	l.name(o, now)
	l.addDebt(o)
	if !late {
		o.state = dueDebt
		l.markOwing(o.home)
	}
	l.entries.add(o)
	return o
}

// name remembers the request id of a debt, if it has one.
func (l *ledger) name(o *debt, now int64) {
	if o.id == "" {
		return
	}
	named := o.home.named
	before := len(named)
	if before >= maxNamed || l.names.Load() >= int64(l.entries.most) {
		maps.DeleteFunc(named, func(_ string, p *debt) bool { return now-p.at >= int64(p.life) })
	}
	if named == nil {
		named = map[string]*debt{}
		o.home.named = named
	}
	if len(named) < maxNamed && l.names.Load() < int64(l.entries.most) {
		named[o.id] = o
	}
	l.names.Add(int64(len(named) - before))
}

// unname forgets the request ids of a record.
func (l *ledger) unname(rec *record) {
	l.names.Add(-int64(len(rec.named)))
	rec.named = nil
}

// copied returns claims that share nothing with those of a caller.
func copied(claims []stint.Claim) []stint.Claim {
	own := slices.Clone(claims)
	for i := range own {
		c := &own[i]
		c.Subject, c.Scope, c.Limits = strings.Clone(c.Subject), strings.Clone(c.Scope), slices.Clone(c.Limits)
	}
	return own
}

// claim is a claim of the record's subject, to lock it.
func (r *record) claim() stint.Claim { return stint.Claim{Subject: r.subject, Scope: r.scope} }

// addDebt adds a debt to its record, and remove takes it off.
func (l *ledger) addDebt(o *debt) {
	o.home.debts = append(o.home.debts, o)
	l.debts.Add(1)
}

func (l *ledger) remove(o *debt) {
	i := slices.Index(o.home.debts, o)
	if i < 0 {
		return
	}
	o.home.debts = slices.Delete(o.home.debts, i, i+1)
	l.debts.Add(-1)
}

// known settles a debt whose answer was late: the store has charged it, or not.
func (l *ledger) known(o *debt, d *stint.Decision, err error, call uint64) {
	var later []amendment
	var backs []giveBackUnits
	charged := err == nil && d.Allowed && (d.Charge.Data().ID != 0 || d.Repeat)
	ahead := charged && d.RetryAfter > 0 && !d.Repeat // a booking, for what is used already
	set := l.lock(o.subjects)
	switch {
	case o.state != lateDebt:
	case charged && !ahead:
		later, backs = l.paid(o, d, call)
	case o.id != "":
		if o.state = dueDebt; ahead { // the booking has its ID
			o.rename()
		}
		l.markOwing(o.home)
	default:
		l.join(o)
	}
	l.unlock(set)
	if ahead {
		l.later.refund(d.Charge, true)
	}
	l.later.finish(later, backs)
}

// rename gives a debt another ID.
func (o *debt) rename() { o.id, o.life, o.renamed = crypto.Text(), maxDebtLife, true }

// join makes a debt whose answer was late a part of what is owed together, less or more what was
// settled meanwhile.
func (l *ledger) join(o *debt) {
	l.remove(o)
	l.entries.forget(o.charge)
	o.state = goneDebt
	l.oweTogether(o.claims, o.at, o.resets)
	for _, a := range o.pending {
		for i := range a.charge.Claims() {
			c := &a.charge.Claims()[i]
			rec := l.find(c)
			for j := range c.Limits {
				n := rec.of(&c.Limits[j], j)
				if n == nil || n.Algorithm == stint.AlgorithmConcurrency || a.Kind != stint.AmendSettle ||
					c.Cost == 0 || o.resets < n.resets {
					continue
				}
				if a.Cost < c.Cost {
					l.forgive(rec, n, c.Cost-a.Cost, o.at, nil)
				} else { // it is uncharged already
					cost := a.Cost
					if n.unit > 0 {
						cost = min(cost, a.most)
					}
					l.owe(rec, n, cost-c.Cost, o.at)
				}
			}
		}
	}
	l.clearOwing(o.home)
}

// paid notes that the store has charged a debt. It returns what is to be amended there, and what is
// to be given back: also what was reset since.
func (l *ledger) paid(o *debt, d *stint.Decision, call uint64) (later []amendment, backs []giveBackUnits) {
	now := l.now()
	l.remove(o)
	o.state, backs = paidDebt, o.back
	for i := range o.claims {
		c := &o.claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			n := rec.of(&c.Limits[j], j)
			switch {
			case n == nil || c.Cost == 0:
			case n.Algorithm == stint.AlgorithmConcurrency:
				for h := range n.holders {
					if n.holders[h].id == o.charge {
						n.holders[h].stored = now + int64(n.Window)
					}
				}
			case o.resets < n.resets:
				if o.charge == 0 {
					backs = append(backs, back(rec, &n.Limit, c.Cost, o.at, generationOf(d, c, &c.Limits[j])))
				}
			default:
				if n.owed != nil && o.charge == 0 {
					n.owed.generation = generationOf(d, c, &c.Limits[j])
				}
				at := d.Charge.Data().NowOf(max(min(i, len(d.Charge.Claims())-1), 0))
				n.repaid(c.Cost, o.at, at, call, now, o.refilled)
			}
		}
	}
	if units := o.allBack(); units > 0 && d.Charge.Data().ID != 0 && len(backs) == len(o.back) {
		part := d.Charge
		part.Data().RequestID = "" // it may have been repeated
		later, backs = append(later, amendment{charge: part,
			Amendment: stint.Amendment{Kind: stint.AmendSettle, Cost: max(o.claims[0].Cost-units, 0)}}), nil
	}
	for i := range backs {
		backs[i].generation = cmp.Or(backs[i].generation, generationOf(d, &o.claims[0], &backs[i].Limits[0]))
	}
	if o.charge != 0 && d.Charge.Data().ID != 0 {
		o.stored = d.Charge
		for _, a := range o.pending {
			if part := partOf(&o.stored, &a.charge); part.Data().ID != 0 {
				later = append(later, amendment{charge: part, Amendment: a.Amendment, done: a.done})
			}
		}
	}
	o.pending = nil
	l.clearOwing(o.home)
	return later, backs
}

// backOf is how many units of a limit of a debt are to be given back.
func (o *debt) backOf(l *stint.Limit) (units int64) {
	for i := range o.back {
		if contract.SameID(&o.back[i].Limits[0], l) {
			units += o.back[i].Units
		}
	}
	return units
}

// allBack is how many units of each limit of a debt are to be given back; 0 if that is not the
// same.
func (o *debt) allBack() int64 {
	limits := o.claims[0].Limits
	units := o.backOf(&limits[0])
	for i := range limits {
		if o.backOf(&limits[i]) != units {
			return 0
		}
	}
	return units
}

// generationOf is that of the state of a limit, of a decision on one claim; 0 if it is not known.
func generationOf(d *stint.Decision, c *stint.Claim, l *stint.Limit) uint32 {
	claims := d.Charge.Claims()
	if len(claims) == 1 {
		c = &claims[0]
	}
	i := slices.Index(contract.StateNames(c, nil), l.Name)
	if i < 0 {
		return 0
	}
	return d.Charge.Data().GenerationAt(i)
}

// partOf returns the part of the store's charge that corresponds to a local one, or to a part of
// it.
func partOf(store, local *stint.Charge) stint.Charge {
	if len(store.Claims()) == len(local.Claims()) {
		return *store
	}
	var numbers []int
	for i := range local.Claims() {
		for k := range store.Claims() {
			if sameClaims(store.Claims()[k:k+1], local.Claims()[i:i+1]) {
				numbers = append(numbers, k)
			}
		}
	}
	return store.Part(numbers...)
}

// forget drops what is known and owed of limits that are reset. It returns what is being charged.
func (l *ledger) forget(c *stint.Command) (flying []*debt) {
	claims := []stint.Claim{{Subject: c.Subject, Scope: c.Scope}}
	set := l.lock(claims)
	defer l.unlock(set)
	rec := l.find(&claims[0])
	if rec == nil {
		return nil
	}
	now := l.now()
	rec.resetAt, rec.generation = now, 0
	l.unname(rec)
	reset := l.resets.Add(1)
	for i := range c.Limits {
		if n := rec.of(&c.Limits[i], i); n != nil {
			*n = count{rule: n.rule, index: n.index, resetAt: now, resets: reset}
			for g := range rec.groups {
				if n.index < len(rec.groups[g].units) {
					rec.groups[g].units[n.index] = 0
				}
			}
		}
	}
	for _, o := range rec.debts {
		if o.flying {
			flying = append(flying, o)
		}
	}
	l.clearOwing(rec)
	return flying
}

// isFlying reports whether a debt is being charged.
func (l *ledger) isFlying(o *debt) bool {
	set := l.lock(o.subjects)
	defer l.unlock(set)
	return o.flying
}

// owedCall is a call that charges a debt.
type owedCall struct {
	driver.Call
	debt   *debt
	ledger *ledger
	number uint64 // of the call to the store
	ended  atomic.Bool
}

// end reports the outcome of the call, once.
func (o *owedCall) end() {
	if o.ended.CompareAndSwap(false, true) {
		o.ledger.charged(o)
	}
}

var errNotSent = errors.New("not sent")

// giveUp ends calls that are not sent.
func giveUp(calls []*owedCall) {
	for _, o := range calls {
		o.Err = errNotSent
		o.end()
	}
}

// charged notes the outcome of a call that charges a debt.
func (l *ledger) charged(c *owedCall) {
	var later []amendment
	var backs []giveBackUnits
	_, invalid := errors.AsType[*stint.InvalidError](c.Err)
	o := c.debt
	set := l.lock(o.subjects)
	if o.flying = false; (c.Err == nil || invalid) && o.state == dueDebt { // what is invalid would always fail
		later, backs = l.paid(o, &c.Decision, c.number)
	}
	l.unlock(set)
	l.later.finish(later, backs)
}

// collect returns calls that charge what a record owes, so many in all.
func (l *ledger) collect(rec *record, now int64, calls []*owedCall) []*owedCall {
	if !rec.owing {
		return calls
	}
	if len(rec.debts) < maxDebts && l.debts.Load() < int64(l.entries.most) {
		for i := range rec.groups {
			l.makeDebts(rec, &rec.groups[i])
		}
		rec.groups = nil
	}
	instances := l.instances()
	refilled := l.refilled(rec, now, instances)
	var gone []*debt
	for _, o := range rec.debts {
		if len(calls) >= sendMost {
			break
		}
		if o.state != dueDebt {
			continue
		}
		r, ok := l.request(o, rec, refilled, now, instances)
		switch {
		case o.flying:
		case !ok:
			gone = append(gone, o)
		default:
			o.flying = true
			c := &owedCall{Call: driver.Call{Request: r}, debt: o, ledger: l}
			c.Call.Done = c.end
			calls = append(calls, c)
		}
	}
	for _, o := range gone { // all of it has left its windows
		l.remove(o)
		o.state = goneDebt
		for i := range o.claims {
			if c := &o.claims[i]; c.Subject == rec.subject && c.Scope == rec.scope {
				for j := range c.Limits {
					if n := rec.of(&c.Limits[j], j); n != nil && o.resets >= n.resets {
						n.repaid(c.Cost, o.at, 0, 0, 0, 0)
					}
				}
			}
		}
	}
	l.clearOwing(rec)
	return calls
}

// refilled is the weight that the meters of a record have given back of what it owes, the oldest
// first.
func (l *ledger) refilled(rec *record, now, instances int64) []int64 {
	var weights []int64
	for i := range rec.counts {
		n := &rec.counts[i]
		if n.meter == nil || n.owed == nil || instances > 1 {
			continue
		}
		if weights == nil {
			weights = make([]int64, len(rec.counts))
		}
		m, owed := n.metered(now, instances), n.owed.uncharged
		for _, o := range rec.debts {
			owed -= o.backOf(&n.Limit)
		}
		weights[i] = max(n.weight(owed)-m.local, 0)
	}
	return weights
}

// makeDebts makes debts of a group: one for all limits with the same units. A limit that refills
// has a debt of its own, because that says how much was refilled.
func (l *ledger) makeDebts(rec *record, g *group) {
	first := len(rec.debts)
	for i, units := range g.units {
		n := &rec.counts[i]
		if units <= 0 {
			continue
		}
		units = min(units, stint.MaxUnits)
		at := slices.IndexFunc(rec.debts[first:], func(o *debt) bool {
			return n.unit == 0 && o.claims[0].Cost == units && !contract.HasMeter(&o.claims[0].Limits[0]) &&
				len(o.claims[0].Limits) < stint.MaxLimits
		})
		if at >= 0 {
			o := rec.debts[first+at]
			o.claims[0].Limits = append(o.claims[0].Limits, n.Limit)
			o.life = max(o.life, debtLife(n.rule))
			continue
		}
		c := rec.claim()
		c.Limits, c.Cost = []stint.Limit{n.Limit}, units
		o := &debt{home: rec, subjects: []stint.Claim{rec.claim()}, id: crypto.Text(), life: debtLife(n.rule), at: g.at,
			resets: l.resets.Load(), state: dueDebt, claims: []stint.Claim{c}}
		l.addDebt(o)
	}
}

func debtLife(r *rule) time.Duration { return min(max(r.Window, minDebtLife), maxDebtLife) }

// request is what charges a debt now, and whether anything of it still counts. Limits that were
// reset since are left out.
func (l *ledger) request(o *debt, rec *record, refilled []int64, now, instances int64) (r stint.Request, ok bool) {
	age, metered, blind, given := max(now-o.at, 0), false, false, time.Duration(0)
	claims := slices.Clone(o.claims)
	for i := range claims {
		c := &claims[i]
		reset := func(m stint.Limit) bool {
			n := rec.of(&m, 0)
			return n != nil && o.resets < n.resets && c.Subject == rec.subject && c.Scope == rec.scope
		}
		if slices.ContainsFunc(c.Limits, reset) {
			c.Limits = slices.DeleteFunc(slices.Clone(c.Limits), reset)
		}
		for j := range c.Limits {
			m := &c.Limits[j]
			if c.Cost == 0 || m.Algorithm == stint.AlgorithmConcurrency {
				continue
			}
			ok = ok || m.Algorithm != stint.AlgorithmBucket && age < int64(m.Window)
			if !contract.HasMeter(m) {
				continue
			}
			n := rec.meters(m, j)
			metered = metered || n != nil && instances == 1 && len(o.claims) == 1
			if n == nil || !metered || rec.blind(n, o.at) { // others may have used all that was refilled
				blind = true
				ok = ok || age < meterLife(m)
			}
		}
	}
	if metered {
		var all bool
		if given, all = refill(&claims[0], rec, o.at, refilled); blind {
			given, all = 0, true
		}
		ok = ok || !all
	}
	claims = slices.DeleteFunc(claims, func(c stint.Claim) bool { return len(c.Limits) == 0 })
	if !o.flying && !o.renamed && o.charge != 0 && now-o.at >= int64(o.life) { // the store may have forgotten the ID
		o.rename()
	}
	r = stint.Request{Claims: claims, ID: o.id, IDLife: o.life, Mode: driver.ModeForce}
	r.Terms().Age, r.Terms().Refilled = time.Duration(age).Truncate(time.Microsecond), given
	if !o.flying {
		o.refilled = given
	}
	return r, ok
}

// meters returns what is known of a limit whose meter has counted something, or nil.
func (r *record) meters(l *stint.Limit, i int) *count {
	if n := r.of(l, i); n != nil && n.meter != nil && n.owed != nil {
		return n
	}
	return nil
}

// refill is for how long the meters of a claim have given it back that was granted at an instant,
// and whether that is all of it. It takes that off what they have given back.
func refill(c *stint.Claim, rec *record, at int64, refilled []int64) (given time.Duration, all bool) {
	given, all = maxAhead, true
	each := func(f func(n *count, weight int64)) {
		for j := range c.Limits {
			if n := rec.meters(&c.Limits[j], j); n != nil && at >= n.owed.since {
				f(n, n.weight(c.Cost))
			}
		}
	}
	each(func(n *count, weight int64) {
		if left := refilled[n.index]; left < weight {
			all = false
			given = min(given, time.Duration(left/n.rate*n.tick)*time.Microsecond)
		}
	})
	each(func(n *count, weight int64) { refilled[n.index] -= min(weight, n.given(given)) })
	return given, all
}

// meterLife is how long a unit may count in a limit that refills, if how much of it was refilled is
// not known: what others used may take all that is refilled. So it is a few times what it takes to
// refill all of it.
func meterLife(m *stint.Limit) int64 {
	return int64(m.Window) * min(4*max(ceilDiv(m.Capacity(), max(m.Max, 1)), 1), int64(maxAhead/stint.MaxWindow))
}

// collectSome returns calls that charge what is owed, of as many subjects as fit in a batch, going
// on where the last batch ended.
func (l *ledger) collectSome() (calls []*owedCall) {
	now := l.now()
	for range l.stripes {
		s := &l.stripes[l.next.Add(1)%stripes]
		s.mu.Lock()
		for rec := range s.owing {
			if calls = l.collect(rec, now, calls); len(calls) >= sendMost {
				break
			}
		}
		s.mu.Unlock()
		if len(calls) >= sendMost {
			l.next.Add(^uint32(0)) // there may be more
			break
		}
	}
	return calls
}

// carry returns calls that charge what is owed under the claims of a request.
func (l *ledger) carry(r *stint.Request) (calls []*owedCall) {
	set := l.lock(r.Claims)
	defer l.unlock(set)
	for i := range r.Claims {
		if rec := l.find(&r.Claims[i]); rec != nil {
			calls = l.collect(rec, l.now(), calls)
		}
	}
	return calls
}
