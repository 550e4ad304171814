package resilience

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// leasedPart divides up a request with several claims. Blocks of this process serve some of the
// claims, for instance the one on the organization. The store decides the others, for instance the
// one on the user, in a separate request. There may be no others.
//
// The units are taken from the blocks before the store is asked. If the request is then allowed, by
// the store or without it, the units count as used; otherwise they are put back. So whether they
// are used depends only on the answer to the caller, even if the store's answer is lost. They count
// as used when they were taken, which is before the block's end. The caller may be answered after
// the block's end, but at most one time budget after the units were taken.
type leasedPart struct {
	leases *leases
	whole  []stint.Claim
	rest   []stint.Claim // the claims that the store decides
	now    leaseTime
	taken  []takenUnits // one for each claim of whole
}

// takenUnits are units taken from a block. block is nil if none were taken.
type takenUnits struct {
	lease *lease
	block *leaseBlock
	left  int64
}

// takePart takes units from blocks for a leasable request with several claims. It returns nil if no
// claim has a block with enough units.
func (l *leases) takePart(r *stint.Request, now leaseTime) *leasedPart {
	var p *leasedPart
	rest := len(r.Claims)
	for i := range r.Claims {
		c := &r.Claims[i]
		if !leasableClaim(c) {
			continue
		}
		_, ls := l.find(r, i)
		if ls == nil {
			continue
		}
		b, left, renew := l.take(ls, c.Cost, now)
		if renew {
			l.renew(ls, now)
		}
		if b == nil { // learn counts the demand
			continue
		}
		if p == nil {
			p = &leasedPart{leases: l, whole: r.Claims, now: now, taken: make([]takenUnits, len(r.Claims))}
		}
		p.taken[i] = takenUnits{ls, b, left}
		rest--
	}
	if p == nil {
		return nil
	}
	if rest > 0 {
		p.rest = make([]stint.Claim, 0, rest)
	}
	for i := range r.Claims {
		if p.taken[i].block == nil {
			p.rest = append(p.rest, r.Claims[i])
		}
	}
	return p
}

// complete turns the decision on p.rest, or the error instead of it, into the decision on the whole
// request. If p.rest is empty, the decision passed must be an allowed one. After an error or a
// denial, complete puts the units back.
func (p *leasedPart) complete(rest *stint.Decision, err error) (d stint.Decision) {
	if err != nil || !rest.Allowed {
		for i := range p.taken {
			if p.taken[i].block != nil {
				p.putBack(i)
			}
		}
	}
	if err != nil {
		return d
	}
	if rest.Unavailable {
		d = flat(&stint.Request{Claims: p.whole}, false)
		d.Degraded = rest.Degraded
		return d
	}
	d.Allowed, d.Banned, d.Degraded = rest.Allowed, rest.Banned, rest.Degraded
	d.RetryAfter, d.BanLeft = rest.RetryAfter, rest.BanLeft
	p.charge(&d, rest)
	p.usages(&d, rest)
	return d
}

// charge sets the charge and the Denier of d, the decision on the whole request, from the decision
// on p.rest and from the blocks. If p.rest was allowed only because the store did not answer, it
// has no charge. Then d has none either, and the units from the blocks stay used.
func (p *leasedPart) charge(d, rest *stint.Decision) {
	claims, from := p.whole, rest.Charge.Data()
	d.Charge.SetClaims(claims)
	data, times := d.Charge.Data(), make([]int64, 2*len(claims))
	at, now := times[:len(claims):len(claims)], times[len(claims):]
	data.ID, data.Fallback, data.Others = from.ID, from.Fallback, new(driver.OtherStates)
	charges := func(c stint.Claim) bool { return contract.Charges(&c) }
	if data.ID == 0 && d.Allowed && !slices.ContainsFunc(p.rest, charges) {
		data.ID, data.Fallback = newLeasedID(p.leases.stack.ledger.mark), false
	}
	restClaim, restState, state, leased := 0, 0, 0, uint16(0)
	for i := range claims {
		of, claim, first := from, restClaim, restState
		if b := p.taken[i].block; b != nil {
			of, claim, first = b.charge.Data(), 0, 0
			leased |= 1 << i
		}
		at[i], now[i] = of.AtOf(claim), of.NowOf(claim)
		states := contract.CountStates(claims[i : i+1])
		for k := range states {
			contract.SetGeneration(&d.Charge, state, of.GenerationAt(first+k))
			state++
		}
		if p.taken[i].block == nil {
			restClaim, restState = restClaim+1, restState+states
			if int(rest.Denier) == restClaim {
				d.Denier = uint8(i + 1)
			}
		}
	}
	data.Now, data.Others.Now = now[0], now[1:]
	if data.ID != 0 {
		data.At, data.Others.At = at[0], at[1:]
		data.Leased, data.Leaser = leased, uint16(p.leases.stack.ledger.mark)
	}
}

// usages sets the usages of d from those of the blocks and of the decision on p.rest. If the latter
// are unknown, it sets none.
func (p *leasedPart) usages(d, rest *stint.Decision) {
	of := rest.Usages()
	if len(of) != contract.CountLimits(p.rest) {
		return
	}
	usages := d.MakeUsages(contract.CountLimits(p.whole))
	for i := range p.whole {
		c, t := &p.whole[i], &p.taken[i]
		n := len(c.Limits)
		switch {
		case t.block == nil:
			copy(usages[:n], of)
			of = of[n:]
		case d.Allowed:
			t.block.show(usages[:n], c.Cost, t.left, p.now)
		default:
			t.block.show(usages[:n], 0, t.left+c.Cost, p.now)
		}
		usages = usages[n:]
	}
}

// putBack puts the units taken for a claim back into their block. If that block is no longer in
// use, putBack gives them back to the store instead, as a refund of a part of the block's charge.
func (p *leasedPart) putBack(i int) {
	t, c := &p.taken[i], p.whole[i]
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	if t.lease.block.Load() == t.block {
		t.block.units.Add(c.Cost)
		return
	}
	of := *t.block.charge.Data()
	of.ID = newLeasedID(p.leases.stack.ledger.mark)
	claim := t.lease.claim
	claim.Cost = c.Cost
	refund := driver.AmendCall{Charge: driver.NewCharge([]stint.Claim{claim}, of),
		Amendment: stint.Amendment{Kind: stint.AmendSettle}}
	p.leases.stack.sender.add(&job{AmendCall: refund}, 0)
}

// amendLeased amends a charge that has leased claims. It settles leased claims in their blocks if
// these still exist, and amends the other claims where they were charged. Once a block has ended,
// its used units are one charge in the store, and settling a claim settles a part of that charge.
// Claims that another process has leased are not settled.
func (s *Stack) amendLeased(ctx context.Context, c stint.Charge, a stint.Amendment) (done stint.Amended, err error) {
	if err := a.Validate(&c); err != nil {
		return done, err
	}
	if err := ctx.Err(); err != nil {
		return done, gaveUp(opAmend, err)
	}
	if a.Kind != stint.AmendExtend && !s.sender.may() { // refuse before anything changes
		return done, &stint.StoreError{Op: opAmend, Kind: stint.KindRefused, Err: errTooMany}
	}
	var rest, ended []int
	for i := range c.Claims() {
		switch {
		case !c.Data().IsLeased(i):
			rest = append(rest, i)
		case s.leases == nil || a.Kind != stint.AmendSettle || uint64(c.Data().Leaser) != s.ledger.mark:
		default:
			here, known := s.leases.settleClaim(&c, i, &a)
			if here {
				done = stint.Amended{Changed: true, Charged: a.Cost}
			} else if !known {
				ended = append(ended, i)
			}
		}
	}
	parts := [][]int{rest, ended}
	if !c.Data().Fallback { // the store has both parts
		parts = [][]int{slices.Concat(rest, ended)}
	}
	for k, indexes := range parts {
		if len(indexes) == 0 {
			continue
		}
		part := c.Part(indexes...)
		part.Data().Leased = 0
		part.Data().Fallback = part.Data().Fallback && k == 0
		some, failed := s.amend(ctx, part, a)
		if failed != nil {
			err = failed
			continue
		}
		if some.Changed && done.Changed {
			some.Charged = min(some.Charged, done.Charged)
		}
		if some.Changed {
			done = some
		}
	}
	return done, err
}
