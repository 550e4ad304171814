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

// group holds the claims of a request or charge that have the same subject, and so the same slot of
// a Cluster.
type group struct {
	claims   []stint.Claim
	indexes  []int // indexes of the claims in the request
	asked    bool
	decision stint.Decision // set if asked
}

// groups divides claims by subject. The first claim is in the first group.
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

// takeSplit decides a request whose subjects may be on different nodes. It charges the caller's own
// subjects first, in parallel, and shared subjects only if the caller's own have room: a request
// that the caller's own limits deny never charges a limit that all callers share. Unless all
// subjects allow the request, takeSplit gives its charges back in the background. No subject ever
// exceeds its limits. At worst, if a charge cannot be given back, units that the subject did not
// use stay charged until they leave the window.
func (s *Store) takeSplit(ctx context.Context, r *stint.Request) (stint.Decision, error) {
	q := &split{store: s, ctx: ctx, r: r, id: s.nextCalls(2), groups: groups(r.Claims)}
	switch n := len(q.groups); {
	case n == 1:
		return q.take(0, r.Mode, false)
	case r.Mode == stint.ModeReserve:
		err := fmt.Errorf("%d subjects cannot be reserved together on a Cluster; want one", n)
		return stint.Decision{}, &stint.InvalidError{Err: err}
	case r.Mode == driver.ModeForce:
		return q.force()
	case r.ID != "" && r.Mode == stint.ModeTake:
		return q.takeOnce()
	}
	return q.end(q.askAll(0, r.Mode))
}

// split is a call of takeSplit in progress.
type split struct {
	store    *Store
	ctx      context.Context // the caller's context
	r        *stint.Request
	id       uint64 // id of all its script calls; all its charges have the next id
	groups   []group
	charged  *stint.Charge // charges of the other groups, to be stored with the request ID
	recalled stint.Charge  // in a repeat: the charge that was stored with the request ID
}

// takeOnce is takeSplit for a request with an id. The call that charges the first subject records
// the id. So takeOnce makes that call last, after the other charges: a repeat that finds the id
// then finds everything charged. If that call fails, it may have charged nonetheless, so the other
// charges stay, unless the error proves that nothing ran.
func (q *split) takeOnce() (stint.Decision, error) {
	if err := q.ask([]int{0}, stint.ModePeek, true); err != nil {
		return stint.Decision{}, err
	}
	first, rest := q.groups[0].decision, stint.ModeTake
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
	if last := &q.groups[0].decision; first.Repeat {
		d.Allowed, d.Denier, d.Banned, d.BanLeft = last.Allowed, last.Denier, last.Banned, last.BanLeft
		d.Repeat, d.RetryAfter = true, last.RetryAfter
		return q.repeat(d), nil
	}
	return q.end(nil)
}

// force is takeSplit for ModeForce. It does not peek before it charges. As in takeOnce, the first
// subject is charged last.
func (q *split) force() (stint.Decision, error) {
	if err := q.askAll(1, driver.ModeForce); err != nil {
		return q.end(err)
	}
	d := q.merge()
	q.charged = &d.Charge
	err := q.ask([]int{0}, driver.ModeForce, false)
	if err != nil && !moving(err) {
		return stint.Decision{}, err
	}
	return q.end(err)
}

// askAll asks the groups in q.groups[from:]. In ModeTake, it asks the shared groups last, and only
// if the others allow the request.
func (q *split) askAll(from int, mode stint.Mode) error {
	var own, shared []int
	for i := from; i < len(q.groups); i++ {
		if mode == stint.ModeTake && q.groups[i].shared() {
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
			if !q.groups[i].decision.Allowed {
				return nil
			}
		}
	}
	for _, i := range shared {
		q.store.ceilings.note(&q.groups[i])
	}
	return nil
}

// shared reports whether all callers share the group's subject.
func (g *group) shared() bool {
	return !slices.ContainsFunc(g.claims, func(c stint.Claim) bool { return !c.Shared })
}

// ask asks the given groups in parallel, and records their answers in q. It returns an error if a
// group fails or the caller's time is up. If followed is set, it gives back the charges in answers
// that arrive later.
func (q *split) ask(which []int, mode stint.Mode, followed bool) error {
	type answer struct {
		group    int
		decision stint.Decision
		err      error
	}
	answers, left := make(chan answer), make(chan struct{})
	for _, i := range which {
		go func() {
			d, err := q.take(i, mode, followed)
			select {
			case answers <- answer{i, d, err}:
			case <-left:
				if err == nil && followed {
					q.store.giveBack(d.Charge)
				}
				q.store.backs.waiting.Add(-1)
			}
		}()
	}
	var failure error
	for n := len(which); n > 0; n-- {
		var a answer
		select {
		case a = <-answers:
		case <-q.ctx.Done():
			q.store.backs.waiting.Add(int64(n))
			close(left)
			return q.ctx.Err()
		}
		// In a repeat, c is the charge of the original request with this ID. Move it to q.recalled,
		// so that end does not give it back.
		if c := &a.decision.Charge; a.decision.Repeat && !c.IsZero() {
			q.recalled, *c = *c, driver.NewCharge(nil, driver.ChargeData{Now: c.Data().Now})
		}
		g := &q.groups[a.group]
		g.decision, g.asked = a.decision, a.err == nil
		if a.err != nil && (failure == nil || moving(failure)) { // a moving slot says little about the store
			failure = a.err
		}
	}
	return failure
}

// take asks one group. If followed is set, it waits for up to giveBackTime longer than the caller.
func (q *split) take(i int, mode stint.Mode, followed bool) (stint.Decision, error) {
	ctx := q.ctx
	deadline, timed := ctx.Deadline()
	if timed && followed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(giveBackTime))
		defer cancel()
	}
	c := driver.Call{Request: *q.r}
	c.Request.Claims, c.Request.Mode = q.groups[i].claims, mode
	part := run{calls: []*driver.Call{&c}, deadline: deadline}
	if i > 0 {
		c.Request.ID = "" // only the first subject records it
	} else {
		part.of, part.elsewhere = q.r, q.charged
	}
	q.store.takeRun(ctx, part, q.id)
	return c.Decision, c.Err
}

// end returns the decision, or err. After an error, a denial or a repeat, it gives the charges
// back.
func (q *split) end(err error) (stint.Decision, error) {
	d := q.merge()
	for i := range q.groups {
		if g := &q.groups[i]; g.asked && (err != nil || !d.Allowed || d.Repeat) {
			q.store.giveBack(g.decision.Charge)
		}
	}
	if err != nil {
		return stint.Decision{}, err
	}
	return q.repeat(d), nil
}

// repeat returns d. If d allows a repeated request, repeat first replaces the charge in d with the
// charge of the original request.
func (q *split) repeat(d stint.Decision) stint.Decision {
	if d.Repeat && d.Allowed && !q.recalled.IsZero() {
		now := *d.Charge.Data()
		d.Charge = q.recalled
		d.Charge.Data().Now, d.Charge.Data().Others.Now = now.Now, now.Others.Now
	}
	return d
}

// merge combines the decisions of the groups into one, in the order of the request's claims. A
// group that was not asked, because another group denied the request, gets its last known usage.
func (q *split) merge() stint.Decision {
	for i := range q.groups {
		if g := &q.groups[i]; !g.asked {
			g.decision = q.store.ceilings.last(g)
		}
	}
	r := q.r
	d := stint.Decision{Allowed: true, Repeat: q.groups[0].decision.Repeat, Charge: contract.ChargeOf(r)}
	claims := len(r.Claims)
	perClaim, id := make([][]stint.Usage, claims), uint64(0)
	at, now := make([]int64, claims), make([]int64, claims)
	generations := make([][]uint32, claims)
	for i := range q.groups {
		g := &q.groups[i]
		part := &g.decision
		if !part.Allowed && (d.Allowed || part.Banned && !d.Banned) { // a ban takes precedence
			d.Allowed, d.Banned, d.BanLeft = false, part.Banned, part.BanLeft
			if d.Denier = 0; part.Denier > 0 {
				d.Denier = uint8(g.indexes[part.Denier-1] + 1)
			}
		}
		d.RetryAfter = max(d.RetryAfter, part.RetryAfter)
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
		id = max(id, part.Charge.Data().ID) // the same in all charges
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
	own := d.MakeUsages(len(all)) // a copy: the groups' usages may be merged again
	copy(own, all)
	for c, usages := range perClaim {
		for i := range usages {
			if at[c] != 0 && d.Charge.Data().ID == 0 { // charged, but about to be given back
				own[i].Used = max(0, own[i].Used-r.Claims[c].CostOf(&r.Claims[c].Limits[i]))
			}
		}
		own = own[len(usages):]
	}
	return d
}

// amendSplit amends each group's part of a charge on the node of its subject, in parallel.
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
	totals := totals{costs: a.Costs}
	for i, one := range each {
		done.repeated = done.repeated || one.repeated
		if one.claims == 0 {
			continue
		}
		done.total, done.dropped = totals.add(one.total, parts[i].claims), max(done.dropped, one.dropped)
		for j, index := range parts[i].indexes {
			done.claims |= one.claims >> j & 1 << index
		}
	}
	return done, errors.Join(errs...)
}

// totals sums up the true costs of a settlement over the groups to which it applied. It counts the
// true cost of each name once.
type totals struct {
	costs stint.Costs // nil if all limits have the same cost
	names []string
	all   int64
}

// add adds the true cost of a group, and returns the sum.
func (t *totals) add(total int64, claims []stint.Claim) int64 {
	if t.costs == nil {
		t.all = max(t.all, total)
		return t.all
	}
	more, others := int64(0), len(t.names) > 0
	for i := range claims {
		for _, name := range contract.StateNames(&claims[i], nil) {
			if !slices.Contains(t.names, name) {
				t.names, more = append(t.names, name), more+t.costs[name]
			}
		}
	}
	if !others {
		more = total
	}
	t.all += more
	return t.all
}
