package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// group is the part of a request or charge that concerns one subject, and so one
// slot of a Cluster.
type group struct {
	claims  []stint.Claim
	indexes []int // where each stands in the request
}

// groups divides claims by subject; the first claim is in the first group.
func groups(first stint.Claim, and []stint.Claim) []group {
	var out []group
	bySubject := map[string]int{}
	for i := range 1 + len(and) {
		c := first
		if i > 0 {
			c = and[i-1]
		}
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

// takeSplit decides a request whose subjects live on different nodes: each is
// charged on its own, in parallel, and what was charged is given back unless all
// were. A subject is never over its limit; at worst, if giving back fails, it is
// charged for what it did not use until that leaves its window.
func (s *Store) takeSplit(ctx context.Context, r *stint.Request) (stint.Decision, error) {
	parts := groups(r.Claim, r.And)
	call := s.nextCall()
	if len(parts) == 1 {
		return s.takeOne(ctx, r, call)
	}
	if r.Mode == stint.Reserve {
		return stint.Decision{}, &stint.InvalidError{Err: fmt.Errorf("%d subjects cannot be reserved together on a Cluster; want one", len(parts))}
	}
	take := func(i int, mode stint.Mode) (stint.Decision, error) {
		sub := *r
		sub.Claim, sub.And, sub.Mode = parts[i].claims[0], parts[i].claims[1:], mode
		if i > 0 {
			sub.ID = "" // the first subject keeps it
		}
		return s.takeOne(ctx, &sub, call)
	}
	if r.Mode == stint.Force {
		return s.forceSplit(ctx, r, parts, take)
	}
	if r.ID != "" && r.Mode == stint.Take {
		return s.takeSplitOnce(ctx, r, parts, take)
	}
	decisions, err := each(parts, func(i int) (stint.Decision, error) { return take(i, r.Mode) })
	d := merge(r, parts, decisions)
	if err != nil || !d.Allowed {
		s.giveBack(ctx, decisions)
	}
	if err != nil {
		return stint.Decision{}, err
	}
	return d, nil
}

// takeSplitOnce is takeSplit with a request id. The id is recorded with the first
// subject's charge, so that comes last, once the others are charged: a repeat then
// finds everything charged. If it fails, nobody knows whether it was; the others stay
// charged.
func (s *Store) takeSplitOnce(ctx context.Context, r *stint.Request, parts []group,
	take func(int, stint.Mode) (stint.Decision, error),
) (stint.Decision, error) {
	first, err := take(0, stint.Peek)
	if err != nil {
		return stint.Decision{}, err
	}
	rest := stint.Take
	if first.Repeat {
		rest = stint.Peek
	}
	decisions, err := each(parts[1:], func(i int) (stint.Decision, error) { return take(i+1, rest) })
	all := append([]stint.Decision{first}, decisions...)
	d := merge(r, parts, all)
	if err != nil || !d.Allowed && !first.Repeat {
		s.giveBack(ctx, decisions)
		if err != nil {
			return stint.Decision{}, err
		}
		return d, nil
	}
	if all[0], err = take(0, stint.Take); err != nil {
		return stint.Decision{}, err
	}
	if first.Repeat {
		d.Allowed, d.Decider, d.Banned, d.Repeat, d.RetryAfter = all[0].Allowed, 0, all[0].Banned, true, all[0].RetryAfter
		return d, nil
	}
	d = merge(r, parts, all)
	if !d.Allowed || d.Repeat {
		s.giveBack(ctx, decisions)
	}
	return d, nil
}

// forceSplit is takeSplit for Force: there is nothing to ask. The first subject comes last, for it has
// the request id: a repeat then finds everything charged.
func (s *Store) forceSplit(ctx context.Context, r *stint.Request, parts []group,
	take func(int, stint.Mode) (stint.Decision, error),
) (stint.Decision, error) {
	decisions, err := each(parts[1:], func(i int) (stint.Decision, error) { return take(i+1, stint.Force) })
	if err != nil {
		s.giveBack(ctx, decisions)
		return stint.Decision{}, err
	}
	first, err := take(0, stint.Force)
	if err != nil {
		return stint.Decision{}, err
	}
	d := merge(r, parts, append([]stint.Decision{first}, decisions...))
	if d.Repeat {
		s.giveBack(ctx, decisions)
	}
	return d, nil
}

// each calls f for every group at the same time and returns all results, and the
// errors joined.
func each[T any](parts []group, f func(int) (T, error)) ([]T, error) {
	results, errs := make([]T, len(parts)), make([]error, len(parts))
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { results[i], errs[i] = f(i) })
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// giveBackTime bounds how long giving back may hold up an answer.
const giveBackTime = time.Second

// undo is an amendment that gives back what the store itself charged a moment ago. It is sent
// once, so that it need not be remembered as settled.
const undo = stint.Release + 1

// giveBack returns what was certainly charged. A failure is not the caller's: the
// charge leaves its window by itself.
func (s *Store) giveBack(ctx context.Context, decisions []stint.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range decisions {
		if c := &decisions[i].Charge; c.ID != 0 {
			wg.Go(func() { _, _ = s.amendOne(ctx, c, stint.Amendment{Kind: undo}) })
		}
	}
	wg.Wait()
}

// merge makes one decision of those of the groups, in the order of the request.
func merge(r *stint.Request, parts []group, decisions []stint.Decision) stint.Decision {
	d := stint.Decision{Allowed: true, Repeat: decisions[0].Repeat, Charge: stint.ChargeOf(r)}
	claims := 1 + len(r.And)
	perClaim, at, id := make([][]stint.Usage, claims), make([]int64, claims), uint64(0)
	generations := make([][]uint32, claims)
	for i, g := range parts {
		part := &decisions[i]
		if !part.Allowed && (d.Allowed || part.Banned && !d.Banned) { // a ban decides first
			d.Allowed, d.Banned, d.Decider = false, part.Banned, uint8(g.indexes[part.Decider])
		}
		if part.RetryAfter == stint.Never || d.RetryAfter != stint.Never && part.RetryAfter > d.RetryAfter {
			d.RetryAfter = part.RetryAfter
		}
		usages, state := part.Usages(), 0
		for j, index := range g.indexes {
			for range g.claims[j].StateNames(nil) {
				generations[index] = append(generations[index], part.Charge.GenerationAt(state))
				state++
			}
			n := min(len(g.claims[j].Limits), len(usages))
			perClaim[index], usages = usages[:n], usages[n:]
			at[index] = part.Charge.At
		}
		id = max(id, part.Charge.ID) // the same in all that were charged
	}
	if d.Allowed && !d.Repeat {
		d.Charge.ID, d.Charge.At, d.Charge.Rest.AndAt = id, at[0], at[1:]
		for i, generation := range slices.Concat(generations...) {
			d.Charge.SetGeneration(i, generation)
		}
	}
	for c, usages := range perClaim {
		for i := range usages {
			if at[c] != 0 && d.Charge.ID == 0 { // charged, and given back
				usages[i].Used = max(0, usages[i].Used-r.ClaimAt(c).Cost)
			}
		}
	}
	all := slices.Concat(perClaim...)
	copy(d.Grow(len(all)), all)
	return d
}

// amendSplit amends each group's part of a charge on its own node. See amendOne.
func (s *Store) amendSplit(ctx context.Context, c *stint.Charge, a stint.Amendment) (changed uint16, err error) {
	parts := groups(c.Claim, c.And())
	each, err := each(parts, func(i int) (uint16, error) {
		part := c.Part(parts[i].indexes...)
		return s.amendOne(ctx, &part, a)
	})
	for i, bits := range each {
		for j, index := range parts[i].indexes {
			changed |= bits >> j & 1 << index
		}
	}
	return changed, err
}
