package resilience

import (
	crypto "crypto/rand"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

const (
	// maxDebts is the maximum number of debts of a record. If a record has that many, due units do
	// not become debts until it has fewer, and requests get no separate debt unless their answer
	// may still come.
	maxDebts = 256
	// maxNamed is the number of request IDs that a record remembers. A store remembers the same
	// number.
	maxNamed = 1000
	// The store remembers for at least minDebtLife, and at most maxDebtLife, that a debt was
	// charged.
	minDebtLife = 30 * time.Second
	maxDebtLife = time.Hour
)

// debt is a request that makes the store charge units that were granted without it. It is sent with
// an ID, so it is charged only once, no matter how often it is sent. There are two kinds. A group
// combines due units that were granted under one limit, in one part of its window. A request with
// an ID, a Hold or a late answer has a separate debt, which can be amended in the store afterwards.
type debt struct {
	home     *record
	subjects []stint.Claim // claims with the subjects whose stripes must be locked
	charge   uint64        // ID of the local charge; 0 for a group
	id       string
	life     time.Duration // time for which the store remembers the ID
	hold     time.Duration
	claims   []stint.Claim
	from, at int64 // when the first and the last of the units were granted
	beaten   int64 // when the last heartbeat of the hold came; 0 if none came
	state    debtState
	sent     bool          // whether the debt was sent, so that the store may have charged it
	flying   bool          // whether a call that charges the debt is under way
	renamed  bool          // whether the ID is new, for example because the store may have forgotten the old one
	refilled time.Duration // the value of Refilled last sent with the debt; see [driver.Terms]
	back     int64         // units of a group that are or will be given back
	repeated bool          // whether the request ID was used again
	refunded bool          // whether the debt was refunded, so that the request ID is no longer valid
	// stored is the store's charge. It is zero until the store has charged the debt. pending holds
	// the amendments that were made before that.
	stored  stint.Charge
	pending []*job
}

type debtState uint8

const (
	openDebt debtState = iota // the store may have charged the debt
	dueDebt
	paidDebt
	goneDebt // the debt has left its windows, or its units will be charged in groups
)

// noteOwing records whether a record has something to charge to the store.
func (l *ledger) noteOwing(rec *record) {
	owing := false
	for i := 0; i < len(rec.counts) && !owing; i++ {
		owing = rec.counts[i].owed != nil && rec.counts[i].owed.due() > 0
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

// oweTogether marks the remaining units of a debt as due, so that they are charged in groups.
func (l *ledger) oweTogether(o *debt) {
	for it := range l.each(o.claims) {
		if it.Algorithm != stint.AlgorithmConcurrency && o.at >= it.since {
			left := o.left(it.count, it.claim)
			it.unowe(it.cost-left, o.at)
			it.together(left, o.at)
			l.noteOwing(it.rec)
		}
	}
}

// forgive cancels units of a limit that were granted at the given time: it subtracts them from the
// limit's debts. For units that the store has already charged, it returns jobs that refund them.
func (l *ledger) forgive(rec *record, n *count, units, at int64) (due []*job) {
	if n.owed == nil {
		return nil
	}
	// Start with the units that were granted within a millisecond of the given time, because times
	// of the store's clock are not exact here. If these are not enough, continue with units granted
	// at any time.
	for _, near := range []int64{int64(time.Millisecond), math.MaxInt64 / 4} {
		for _, o := range slices.Concat(rec.debts, n.owed.paid) {
			if o.charge != 0 || o.from-near > at || at > o.at+near || !contract.SameID(&o.claims[0].Limits[0], &n.Limit) {
				continue
			}
			part := min(units, o.claims[0].Cost-o.back)
			o.back, units = o.back+part, units-part
			if o.state == paidDebt && part > 0 {
				due = append(due, refundPart(&o.stored, part))
			}
		}
		if units = n.cancel(units, at-near, at+near); units == 0 {
			break
		}
	}
	return due
}

// refundPart returns a job that refunds some units of c, the store's charge for a group. It makes
// these units a separate charge and refunds that charge, so that exactly these units are refunded,
// once.
func refundPart(c *stint.Charge, units int64) *job {
	part := *c
	claim := c.Claims()[0]
	claim.Cost = units
	part.SetClaims([]stint.Claim{claim})
	part.Data().ID, part.Data().RequestID, part.Data().IDLife = 1+rand.Uint64N(math.MaxUint64), "", 0
	return newJob(part, stint.Amendment{Kind: stint.AmendSettle}, nil)
}

func (r *record) isOther(c stint.Claim) bool { return c.Subject != r.subject || c.Scope != r.scope }

func (r *record) claim(l *stint.Limit, units int64) stint.Claim {
	return stint.Claim{Subject: r.subject, Scope: r.scope, Limits: []stint.Limit{*l}, Cost: units}
}

// addDebt adds a debt to its record, in the order of the grants.
func (l *ledger) addDebt(o *debt) {
	o.subjects = append(slices.Clone(o.claims), stint.Claim{Subject: o.home.subject, Scope: o.home.scope})
	i := len(o.home.debts)
	for ; i > 0 && o.home.debts[i-1].at > o.at; i-- { // after a late answer, older units may become a debt
	}
	o.home.debts = slices.Insert(o.home.debts, i, o)
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

func (l *ledger) mayAdd(rec *record) bool {
	return len(rec.debts) < maxDebts && l.debts.Load() < int64(l.entries.most)
}

// oweAlone creates a separate debt for the units that a request was granted. The state is openDebt
// if the request was sent, because a late answer may show whether the store has charged it.
func (l *ledger) oweAlone(r *stint.Request, charge uint64, state debtState, now int64) *debt {
	o := &debt{charge: charge, from: now, at: now, claims: copied(r.Claims), state: state,
		home: l.record(&r.Claims[0], now)}
	if contract.Charges(&r.Claims[0]) { // otherwise a store does not remember the ID
		o.id, o.life = r.ID, contract.Life(r)
	}
	if o.hold = r.Hold; o.hold > 0 && o.id == "" && state == dueDebt {
		o.rename()
	}
	l.name(o, now)
	if state != goneDebt {
		l.addDebt(o)
		l.entries.add(o)
	}
	return o
}

func (o *debt) seen() int64 { return max(o.at, o.beaten) }

func (o *debt) rename() { o.id, o.life, o.renamed, o.sent = crypto.Text(), maxDebtLife, true, false }

// name remembers the request ID of a debt, if the debt has one and there is room.
func (l *ledger) name(o *debt, now int64) {
	if o.id == "" {
		return
	}
	rec := o.home
	before := len(rec.named)
	if before >= maxNamed || l.names.Load() >= int64(l.entries.most) {
		maps.DeleteFunc(rec.named, func(_ string, p *debt) bool { return now-p.seen() >= int64(p.life) })
	}
	if rec.named == nil {
		rec.named = map[string]*debt{}
	}
	if len(rec.named) < maxNamed && l.names.Load() < int64(l.entries.most) {
		rec.named[o.id] = o
	}
	l.names.Add(int64(len(rec.named) - before))
}

func (l *ledger) unname(rec *record) {
	l.names.Add(-int64(len(rec.named)))
	rec.named = nil
}

// copied returns a deep copy of claims.
func copied(claims []stint.Claim) []stint.Claim {
	own := slices.Clone(claims)
	for i := range own {
		c := &own[i]
		c.Subject, c.Scope, c.Limits = strings.Clone(c.Subject), strings.Clone(c.Scope), slices.Clone(c.Limits)
		c.Costs = maps.Clone(c.Costs)
	}
	return own
}

// entries maps the IDs of local charges to their debts. When there are too many, the oldest entry
// is removed.
type entries struct {
	mu    sync.Mutex
	of    map[uint64]*debt
	order []uint64 // IDs of local charges, the oldest first
	most  int
}

func (e *entries) add(o *debt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of[o.charge] = o
	if e.order = append(e.order, o.charge); len(e.order) > e.most {
		delete(e.of, e.order[0])
		e.order = e.order[1:]
	}
}

func (e *entries) get(charge uint64) *debt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[charge]
}
