package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// group is the part of a request or charge that concerns one subject, and so one slot of a Cluster.
type group struct {
	claims  []stint.Claim
	indexes []int // where each stands in the request
}

// groups divides claims by subject; the first claim is in the first group.
func groups(claims []stint.Claim) []group {
	var out []group
	bySubject := map[string]int{}
	for i, c := range claims {
		g, ok := bySubject[c.Subject]
		if !ok {
			g = len(out)
			bySubject[c.Subject] = g
			out = append(out, group{})
		}
		out[g].claims = append(out[g].claims, c)
		out[g].indexes = append(out[g].indexes, i)
	}
	return out
}

// takeSplit decides a request whose subjects live on different nodes. The caller's own subjects are
// charged first, in parallel, and those that it shares with others only once these have room: what
// the caller's own limits deny is never charged to a ceiling for all. What was charged is given
// back in the background unless all were. A subject is never over its limit; at worst, if giving
// back fails, it is charged for what it did not use until that leaves its window.
func (s *Store) takeSplit(ctx context.Context, r *stint.Request) (stint.Decision, error) {
	parts := groups(r.Claims)
	call := s.nextCall()
	if len(parts) == 1 {
		return s.takeOne(ctx, r, call)
	}
	if r.Mode == stint.ModeReserve {
		err := fmt.Errorf("%d subjects cannot be reserved together on a Cluster; want one", len(parts))
		return stint.Decision{}, &stint.InvalidError{Err: err}
	}
	q := &split{
		store: s, ctx: ctx, r: r, call: call, parts: parts,
		decisions: make([]stint.Decision, len(parts)), asked: make([]bool, len(parts)),
	}
	switch {
	case r.Mode == driver.ModeForce:
		return q.force()
	case r.ID != "" && r.Mode == stint.ModeTake:
		return q.takeOnce()
	}
	return q.end(q.askAll(0, r.Mode))
}

// split is a request while its subjects are asked.
type split struct {
	store     *Store
	ctx       context.Context // the caller's
	r         *stint.Request
	call      uint64
	parts     []group
	decisions []stint.Decision // of each group that was asked
	asked     []bool
	charged   *stint.Charge // what the other groups were charged, for the ID to remember
	recalled  stint.Charge  // what the ID remembers, of a repeat
}

// takeOnce is takeSplit with a request id. The id is recorded with the first subject's charge, so
// that comes last, once the others are charged: a repeat then finds everything charged. If it
// fails, nobody knows whether it was; the others stay charged.
func (q *split) takeOnce() (stint.Decision, error) {
	if err := q.ask([]int{0}, stint.ModePeek, true); err != nil {
		return stint.Decision{}, err
	}
	first, rest := q.decisions[0], stint.ModeTake
	if first.Repeat {
		rest = stint.ModePeek
	}
	if first.Allowed || first.Repeat {
		if err := q.askAll(1, rest); err != nil {
			return q.end(err)
		}
	}
	d := q.merge()
	if !d.Allowed && !first.Repeat {
		return q.end(nil)
	}
	q.charged = &d.Charge
	if err := q.ask([]int{0}, stint.ModeTake, false); err != nil {
		if moving(err) { // nothing ran
			return q.end(err)
		}
		return stint.Decision{}, err
	}
	if last := &q.decisions[0]; first.Repeat {
		d.Allowed, d.Denier, d.Banned, d.BanLeft = last.Allowed, last.Denier, last.Banned, last.BanLeft
		d.Repeat, d.RetryAfter = true, last.RetryAfter
		return q.repeat(d), nil
	}
	return q.end(nil)
}

// force is takeSplit for Force: there is nothing to ask before. The first subject comes last, as in
// takeOnce.
func (q *split) force() (stint.Decision, error) {
	rest := make([]int, 0, len(q.parts)-1)
	for i := 1; i < len(q.parts); i++ {
		rest = append(rest, i)
	}
	if err := q.ask(rest, driver.ModeForce, true); err != nil {
		return q.end(err)
	}
	d := q.merge()
	q.charged = &d.Charge
	if err := q.ask([]int{0}, driver.ModeForce, false); err != nil {
		if moving(err) {
			return q.end(err)
		}
		return stint.Decision{}, err
	}
	return q.end(nil)
}

// askAll asks all groups from the given one on: if they are to be charged, those that all callers
// share only after the others have room.
func (q *split) askAll(from int, mode stint.Mode) error {
	var own, shared []int
	for i := from; i < len(q.parts); i++ {
		if mode == stint.ModeTake && q.parts[i].shared() {
			shared = append(shared, i)
		} else {
			own = append(own, i)
		}
	}
	for _, phase := range [][]int{own, shared} {
		if err := q.ask(phase, mode, true); err != nil {
			return err
		}
		for _, i := range phase {
			if !q.decisions[i].Allowed {
				return nil
			}
		}
	}
	for _, i := range shared {
		q.store.ceilings.note(&q.parts[i], q.decisions[i].Usages())
	}
	return nil
}

// shared reports whether all callers share the group's subject.
func (g *group) shared() bool {
	return !slices.ContainsFunc(g.claims, func(c stint.Claim) bool { return !c.Shared })
}

// answer is that of one group.
type answer struct {
	group    int
	decision stint.Decision
	err      error
}

// ask asks groups at the same time, and waits for them until the caller's time is up. If the
// answers are followed, what comes later than that is given back.
func (q *split) ask(which []int, mode stint.Mode, followed bool) error {
	deadline, timed := q.ctx.Deadline()
	ctx, cancel := q.ctx, func() {}
	if timed && followed {
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(giveBackTime))
	}
	answers := make(chan answer, len(which))
	for _, i := range which {
		sub := *q.r
		sub.Claims, sub.Mode = q.parts[i].claims, mode
		if i > 0 {
			sub.ID = "" // the first subject keeps it
		}
		part := run{deadline: deadline}
		if i == 0 {
			part.of, part.elsewhere = q.r, q.charged
		}
		go func() {
			d, err := q.store.takeRun(ctx, &sub, q.call, part)
			answers <- answer{i, d, err}
		}()
	}
	var failure error
	for left := len(which); left > 0; left-- {
		a, ok := next(q.ctx, answers)
		if !ok {
			q.store.backs.follow(answers, left, cancel)
			return q.ctx.Err()
		}
		if c := &a.decision.Charge; a.decision.Repeat && !c.IsZero() { // that of the whole request
			q.recalled, *c = *c, driver.NewCharge(nil, driver.ChargeData{Now: c.Data().Now})
		}
		q.decisions[a.group], q.asked[a.group] = a.decision, a.err == nil
		if a.err != nil && (failure == nil || moving(failure)) { // the others say more about the store
			failure = a.err
		}
	}
	cancel()
	return failure
}

// next returns an answer, unless there is none when the context ends.
func next(ctx context.Context, answers <-chan answer) (a answer, ok bool) {
	select {
	case a = <-answers:
		return a, true
	case <-ctx.Done():
	}
	select {
	case a = <-answers:
		return a, true
	default:
		return a, false
	}
}

// end returns the decision, and gives back what was charged unless that is to allow.
func (q *split) end(err error) (stint.Decision, error) {
	d := q.merge()
	if err != nil || !d.Allowed || d.Repeat {
		for i := range q.decisions {
			if q.asked[i] && q.decisions[i].Charge.Data().ID != 0 {
				q.store.backs.add(q.decisions[i].Charge)
			}
		}
	}
	if err != nil {
		return stint.Decision{}, err
	}
	return q.repeat(d), nil
}

// repeat gives the decision on a repeat the charge of the first request.
func (q *split) repeat(d stint.Decision) stint.Decision {
	if d.Repeat && d.Allowed && !q.recalled.IsZero() {
		now := *d.Charge.Data()
		d.Charge = q.recalled
		d.Charge.Data().Now, d.Charge.Data().Others.Now = now.Now, now.Others.Now
	}
	return d
}

// merge makes one decision of those of the groups. Groups that were not asked, because others
// denied, have what is known of them.
func (q *split) merge() stint.Decision {
	for i := range q.parts {
		if !q.asked[i] {
			q.decisions[i] = q.store.ceilings.last(&q.parts[i])
		}
	}
	return merge(q.r, q.parts, q.decisions)
}

// merge makes one decision of those of the groups, in the order of the request.
func merge(r *stint.Request, parts []group, decisions []stint.Decision) stint.Decision {
	d := stint.Decision{Allowed: true, Repeat: decisions[0].Repeat, Charge: contract.ChargeOf(r)}
	claims := len(r.Claims)
	perClaim, id := make([][]stint.Usage, claims), uint64(0)
	at, now := make([]int64, claims), make([]int64, claims)
	generations := make([][]uint32, claims)
	for i, g := range parts {
		part := &decisions[i]
		if !part.Allowed && (d.Allowed || part.Banned && !d.Banned) { // a ban decides first
			d.Allowed, d.Banned, d.BanLeft = false, part.Banned, part.BanLeft
			if d.Denier = 0; part.Denier > 0 {
				d.Denier = uint8(g.indexes[part.Denier-1] + 1)
			}
		}
		if part.RetryAfter == stint.Never || d.RetryAfter != stint.Never && part.RetryAfter > d.RetryAfter {
			d.RetryAfter = part.RetryAfter
		}
		usages, state := part.Usages(), 0
		for j, index := range g.indexes {
			for range contract.StateNames(&g.claims[j], nil) {
				generations[index] = append(generations[index], part.Charge.Data().GenerationAt(state))
				state++
			}
			n := min(len(g.claims[j].Limits), len(usages))
			perClaim[index], usages = usages[:n], usages[n:]
			at[index], now[index] = part.Charge.Data().At, part.Charge.Data().Now
		}
		id = max(id, part.Charge.Data().ID) // the same in all that were charged
	}
	data := d.Charge.Data()
	data.Now, data.Others = now[0], &driver.OtherStates{Now: now[1:]}
	for i, generation := range slices.Concat(generations...) {
		contract.SetGeneration(&d.Charge, i, generation)
	}
	if d.Allowed && !d.Repeat {
		data.ID, data.At, data.Others.At = id, at[0], at[1:]
	}
	all := slices.Concat(perClaim...)
	own := d.MakeUsages(len(all)) // the groups' own stay as they are: they may be merged again
	copy(own, all)
	for c, usages := range perClaim {
		for i := range usages {
			if at[c] != 0 && d.Charge.Data().ID == 0 { // charged, and given back
				own[i].Used = max(0, own[i].Used-r.Claims[c].Cost)
			}
		}
		own = own[len(usages):]
	}
	return d
}

// amendSplit amends each group's part of a charge on its own node, all at the same time.
func (s *Store) amendSplit(ctx context.Context, c *stint.Charge, a stint.Amendment) (done amended, err error) {
	parts := groups(c.Claims())
	if len(parts) == 1 {
		return s.amendOne(ctx, c, a)
	}
	each, errs := make([]amended, len(parts)), make([]error, len(parts))
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() {
			part := c.Part(parts[i].indexes...)
			each[i], errs[i] = s.amendOne(ctx, &part, a)
		})
	}
	group.Wait()
	for i, one := range each {
		bits := one.claims
		one.claims = 0
		for j, index := range parts[i].indexes {
			one.claims |= bits >> j & 1 << index
		}
		done = done.with(one)
	}
	return done, errors.Join(errs...)
}
