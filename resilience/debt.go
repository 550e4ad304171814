package resilience

import (
	crypto "crypto/rand"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

const (
	// maxGroups is how many groups a limit has, and maxDebts how many debts a record has before
	// groups are kept as they are, and requests with an id have no debt of their own.
	maxGroups = 16
	maxDebts  = 256
	// maxNamed is how many request ids a record remembers, as a store does.
	maxNamed = 1000
	// The store remembers for so long that a debt was charged.
	minDebtLife = 30 * time.Second
	maxDebtLife = time.Hour
)

// group is units of a limit that were granted without the store at about the same time, and are not
// being charged yet.
type group struct{ from, at, units int64 }

// debt is something that the store has to be charged with, in one request. It has an ID, so that it
// is charged once, however often it is sent. A group becomes a debt when it is to be sent. What has
// an ID of its own, or whose answer is late, is a debt of its own, and can be amended in the store
// afterwards.
type debt struct {
	home     *record
	subjects []stint.Claim // of its claims and of its home, for their locks
	charge   uint64        // the local one; 0 of a group
	id       string
	life     time.Duration // of the ID
	claims   []stint.Claim
	at       int64  // when it was granted
	resets   uint64 // how many resets there had been
	state    debtState
	flying   bool          // it is being charged
	renamed  bool          // the store may have forgotten its ID, and it has another
	refilled time.Duration // for how long meters had given it back when it was sent last
	back     int64         // units of a group that are to be given back
	repeated bool          // of a request id,
	refunded bool          // which its refund forgets
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

// amendment is one of a charge, or of a part of it. Done, if it is not nil, is called when the
// store has made it.
type amendment struct {
	charge stint.Charge
	stint.Amendment
	done func(stint.Amended)
}

// noteOwing notes whether a record has something to charge.
func (l *ledger) noteOwing(rec *record) {
	owing := false
	for i := 0; i < len(rec.counts) && !owing; i++ {
		owing = rec.counts[i].owed != nil && len(rec.counts[i].owed.groups) > 0
	}
	owing = owing || slices.ContainsFunc(rec.debts, func(o *debt) bool { return o.state == dueDebt })
	switch {
	case owing && !rec.owing:
		rec.stripe.owing[rec] = struct{}{}
		l.owing.Add(1)
	case !owing && rec.owing:
		delete(rec.stripe.owing, rec)
		l.owing.Add(-1)
	}
	rec.owing = owing
}

// oweTogether adds what some claims were granted at an instant, after so many resets, to what their
// subjects owe.
func (l *ledger) oweTogether(claims []stint.Claim, at int64, resets uint64) {
	for it := range l.each(claims) {
		if it.Algorithm != stint.AlgorithmConcurrency && resets >= it.resets {
			it.group(it.cost, at)
			l.noteOwing(it.rec)
		}
	}
}

// group adds units that were granted at an instant to a group. If there are too many, two neighbors
// are merged, as of the later instant: at worst units count longer. So it is the closest ones, or
// those that do not count any more.
func (c *count) group(units, at int64) {
	if c.owed == nil {
		c.owed = new(owed)
	}
	o := c.owed
	for i := range o.groups {
		if g := &o.groups[i]; at-g.from < c.part && g.at-at < c.part {
			g.from, g.at, g.units = min(g.from, at), max(g.at, at), g.units+units
			return
		}
	}
	if len(o.groups) == maxGroups {
		best, least := 0, int64(math.MaxInt64)
		for i := range o.groups[1:] {
			longer := o.groups[i+1].at - o.groups[i].from
			if at-o.groups[i+1].at >= int64(c.Window) {
				longer = 0
			}
			if longer < least {
				best, least = i, longer
			}
		}
		o.groups[best+1].from = o.groups[best].from
		o.groups[best+1].units += o.groups[best].units
		o.groups = slices.Delete(o.groups, best, best+1)
	}
	i := len(o.groups) // they are in order
	for i > 0 && o.groups[i-1].at > at {
		i--
	}
	o.groups = slices.Insert(o.groups, i, group{at, at, units})
}

// cancel takes up to so many units off what was granted from one instant to another and is not
// being charged yet. It returns how many are left.
func (c *count) cancel(units, from, to int64) int64 {
	if c.owed == nil {
		return units
	}
	for i := range c.owed.groups {
		if g := &c.owed.groups[i]; g.from <= to && from <= g.at {
			gone := min(units, g.units)
			g.units, units = g.units-gone, units-gone
			c.unowe(gone, g.at)
		}
	}
	c.owed.groups = slices.DeleteFunc(c.owed.groups, func(g group) bool { return g.units == 0 })
	return units
}

// forgive takes units that were granted at an instant off what is owed together: the oldest first,
// so that none counts as older than it is. It returns those that the store has been charged with,
// and are to be given back.
func (l *ledger) forgive(rec *record, n *count, units, at int64) []backUnits {
	const near = int64(time.Millisecond)
	for _, o := range rec.debts {
		if o.charge == 0 && o.state == dueDebt && o.at >= at-near && contract.SameID(&o.claims[0].Limits[0], &n.Limit) {
			part := min(units, o.claims[0].Cost-o.back)
			o.back, units = o.back+part, units-part
		}
	}
	if units = n.cancel(units, at-near, at+near); units == 0 {
		return nil
	}
	b := backUnits{claim: rec.claim(&n.Limit, units), at: at}
	if n.owed != nil {
		b.generation = n.owed.generation
	}
	return []backUnits{b}
}

// isOther reports whether a claim has another record.
func (r *record) isOther(c stint.Claim) bool { return c.Subject != r.subject || c.Scope != r.scope }

// claim is one of units of a limit of a record.
func (r *record) claim(l *stint.Limit, units int64) stint.Claim {
	return stint.Claim{Subject: r.subject, Scope: r.scope, Limits: []stint.Limit{*l}, Cost: units}
}

// addDebt adds a debt to its record, and remove takes it off, in a state that it then has.
func (l *ledger) addDebt(o *debt) {
	o.subjects = append(slices.Clone(o.claims), stint.Claim{Subject: o.home.subject, Scope: o.home.scope})
	o.home.debts = append(o.home.debts, o)
	l.debts.Add(1)
	l.noteOwing(o.home)
}

func (l *ledger) remove(o *debt, state debtState) {
	o.state = state
	if i := slices.Index(o.home.debts, o); i >= 0 {
		o.home.debts = slices.Delete(o.home.debts, i, i+1)
		l.debts.Add(-1)
	}
}

// mayAdd reports whether a record may have another debt.
func (l *ledger) mayAdd(rec *record) bool {
	return len(rec.debts) < maxDebts && l.debts.Load() < int64(l.entries.most)
}

// oweAlone has a debt of its own for what a request was granted. One that has no ID is late.
func (l *ledger) oweAlone(r *stint.Request, charge uint64, state debtState, now int64) *debt {
	o := &debt{charge: charge, at: now, resets: l.resets.Load(), claims: copied(r.Claims), state: state,
		home: l.record(&r.Claims[0], now)}
	if r.Claims[0].Cost > 0 { // else a store does not remember the ID
		o.id, o.life = r.ID, contract.Life(r)
	}
	l.name(o, now)
	if state != goneDebt {
		l.addDebt(o)
		l.entries.add(o)
	}
	return o
}

// rename gives a debt another ID.
func (o *debt) rename() { o.id, o.life, o.renamed = crypto.Text(), maxDebtLife, true }

// name remembers the request id of a debt, if it has one.
func (l *ledger) name(o *debt, now int64) {
	if o.id == "" {
		return
	}
	rec := o.home
	before := len(rec.named)
	if before >= maxNamed || l.names.Load() >= int64(l.entries.most) {
		maps.DeleteFunc(rec.named, func(_ string, p *debt) bool { return now-p.at >= int64(p.life) })
	}
	if rec.named == nil {
		rec.named = map[string]*debt{}
	}
	if len(rec.named) < maxNamed && l.names.Load() < int64(l.entries.most) {
		rec.named[o.id] = o
	}
	l.names.Add(int64(len(rec.named) - before))
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

func (e *entries) get(charge uint64) *debt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[charge]
}
