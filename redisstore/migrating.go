package redisstore

import (
	"context"
	"math/bits"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// While a slot of a Cluster is being moved, a call is refused with TRYAGAIN unless all of its keys
// are on one of the two nodes, and one that does not exist is on neither: a request of somebody who
// is not banned, for instance. That lasts until the move ends. A call with a single key is always
// answered, by the old owner if that has it, else by the new one. So what was refused is done key
// by key.
//
// Each step is exact by itself: a key that the old owner does not have never comes back there, so
// what the new one does not have either does not exist. What is no longer atomic errs on the safe
// side. A request that is sent twice at the same moment under one ID may be charged twice. Whatever
// gives units back is first marked as settled: if the giving back is then lost, the units stay
// charged.
//
// Requests whose limits are in several keys, by their names or because of concurrency limits, are
// not divided: they fail with the kind "migrating".

// Steps of lua/onekey.lua.
const (
	stepSeeBan = iota
	stepStrike
	stepSetBan
	stepSeeID
	stepRecordID
	stepDropID
	stepMark
	stepSeeReset
	stepNone
)

// moving reports whether a call was refused because its slot is being moved: nothing ran.
func moving(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && refused.IsTryAgain()
}

// step is one call of onekey.lua. It returns the server's clock and the numbers that the step
// replies.
func (s *Store) step(
	ctx context.Context, key oneKey, kind byte, id string, numbers []byte,
) (now int64, reply [3]int64, err error) {
	now, reply, _, err = s.stepText(ctx, key, kind, id, numbers)
	return now, reply, err
}

// stepText is step that also returns the text that the step replies.
func (s *Store) stepText(
	ctx context.Context, key oneKey, kind byte, id string, numbers []byte,
) (now int64, reply [3]int64, after string, err error) {
	k, err := s.newKeys()
	if err != nil {
		return 0, reply, "", err
	}
	k.inScope(key.subject, key.scope, key.what)
	call := s.nextCall()
	b := append(appendStart(nil, call, s.clock()), 0, kind) // without sets
	text, err := oneKeyScript.run(ctx, &s.conn, k.strings(), withID(append(b, numbers...), k.names.id(id)))
	if err != nil {
		return 0, reply, "", err
	}
	in, now, err := opening(text, call)
	if err != nil {
		return 0, reply, "", err
	}
	for i := range reply {
		reply[i] = in.int(0)
	}
	after = in.take(len(in.text) - in.at)
	return now, reply, after, in.end()
}

// numbers packs whole numbers.
func numbers(values ...int64) (b []byte) {
	for _, v := range values {
		b = appendInt(b, v)
	}
	return b
}

// oneKey names a key: of a subject in a scope or, without one, of the subject as a whole.
type oneKey struct{ subject, scope, what string }

// keyOf names a key of a claim's scope.
func keyOf(c *stint.Claim, what string) oneKey { return oneKey{c.Subject, c.Scope, what} }

// refused answers the calls of a script call that was refused because its slot is being moved: each
// run on its own, key by key where that can be, else with one more attempt. It returns the calls
// that the server refused as too late though they have time left.
func (c *scriptCall) refused(ctx context.Context) (late []*driver.Call) {
	switch {
	case len(c.runs) > 1:
		for i := range c.runs {
			one := c.runs[i : i+1]
			late = append(late, c.store.send(ctx, &c.store.conn, one, c.store.nextCalls(ids(one)))...)
		}
		return late
	case c.canDivide():
		return c.store.takeMigrating(ctx, &c.runs[0], c.call)
	}
	return c.answer(takeScript.run(ctx, &c.store.conn, c.keys, c.args))
}

// canDivide reports whether the request has one key beside those of bans and of its ID.
func (c *scriptCall) canDivide() bool {
	for i := range c.parts {
		if c.keys[i] != c.keys[0] {
			return false
		}
	}
	r := &c.runs[0].calls[0].Request
	return r.ID != "" && r.Mode != stint.ModeReserve || r.ID == "" && r.Bans != nil
}

// takeMigrating decides a run of equal requests key by key: is the subject banned, is the ID known,
// is there room; then the ID is recorded, or a denial counted towards a ban.
func (s *Store) takeMigrating(ctx context.Context, q *run, call uint64) (late []*driver.Call) {
	r := &q.calls[0].Request
	var ban [3]int64 // until, forgive, level
	// The first claim that is not Shared, if there is one.
	if own := bits.TrailingZeros16(^sharedClaims(r)); contract.AppliesBans(r) && own < len(r.Claims) {
		now, found, err := s.step(ctx, oneKey{subject: r.Claims[own].Subject, what: "ban"},
			stepSeeBan, "", nil)
		if err != nil {
			fail(q.calls, err)
			return nil
		}
		if ban = found; ban[0] > now {
			return s.lookMigrating(ctx, q, func(d *stint.Decision) {
				d.Allowed, d.Banned, d.Denier, d.BanLeft = false, true, uint8(own+1), micros(ban[0]-now)
				d.RetryAfter = d.BanLeft
			})
		}
	}
	known := false
	if r.ID != "" && r.Claims[0].Cost > 0 {
		count := append(numbers(contract.Life(r).Microseconds()),
			oneIf(r.Mode == stint.ModeTake || r.Mode == driver.ModeForce))
		now, found, charge, err := s.stepText(ctx, keyOf(&r.Claims[0], seenKey), stepSeeID, r.ID, count)
		if err != nil {
			fail(q.calls, err)
			return nil
		}
		if known = found[0] > 0; known && (found[1] < storebounds.MaxRepeats || r.Mode == driver.ModeForce) {
			return s.lookMigrating(ctx, q, func(d *stint.Decision) {
				d.Repeat, d.Denier, d.RetryAfter = true, 0, 0
				if wait := found[0] - now; wait >= idStep {
					d.RetryAfter = micros(wait)
				}
				d.Allowed = d.RetryAfter == 0 || r.Mode != stint.ModeTake
				if first, ok := q.recall(charge); ok && d.Allowed && r.Mode != stint.ModePeek {
					first.Data().Now = d.Charge.Data().Now
					d.Charge = first
				}
				for i := range d.Usages() {
					d.Usages()[i].RetryAfter = 0
				}
			})
		}
	}
	plain := run{deadline: q.deadline}
	for _, c := range q.calls {
		alone := &driver.Call{Request: c.Request, Deadline: c.Deadline}
		alone.Request.Bans, alone.Request.ID = nil, ""
		plain.calls = append(plain.calls, alone)
	}
	again := s.send(ctx, &s.conn, []run{plain}, call)
	for i, c := range q.calls {
		c.Decision, c.Err = plain.calls[i].Decision, plain.calls[i].Err
		if c.Err == nil {
			s.afterMigrating(ctx, q, c, ban, known)
		}
		for _, l := range again {
			if l == plain.calls[i] {
				late = append(late, c)
			}
		}
	}
	return late
}

// lookMigrating answers a run without charging it.
func (s *Store) lookMigrating(ctx context.Context, q *run, change func(*stint.Decision)) (late []*driver.Call) {
	look := driver.Call{Request: q.calls[0].Request, Deadline: q.calls[0].Deadline}
	peek := &look.Request
	peek.Mode, peek.Bans, peek.ID, *peek.Terms() = stint.ModePeek, nil, "", driver.Terms{}
	alone := []run{{calls: []*driver.Call{&look}, deadline: q.deadline}}
	if again := s.send(ctx, &s.conn, alone, s.nextCall()); len(again) > 0 {
		return q.calls
	}
	for _, c := range q.calls {
		c.Decision, c.Err = look.Decision, look.Err
		if c.Request.ID != "" {
			data := c.Decision.Charge.Data()
			data.RequestID, data.IDLife = c.Request.ID, contract.Life(&c.Request)
		}
		copy(c.Decision.MakeUsages(len(look.Decision.Usages())), look.Decision.Usages())
		if c.Err == nil {
			change(&c.Decision)
		}
	}
	return nil
}

// afterMigrating does what follows from a decision that was made on the limits alone. If it fails,
// the decision stands: a repeat of the ID is charged, a denial does not count.
func (s *Store) afterMigrating(ctx context.Context, q *run, c *driver.Call, ban [3]int64, known bool) {
	r, d := &c.Request, &c.Decision
	if r.ID != "" {
		d.Charge.Data().RequestID, d.Charge.Data().IDLife = r.ID, contract.Life(r)
		if d.Charge.Data().ID != 0 && !known && r.Claims[0].Cost > 0 {
			at := max(d.Charge.Data().At, d.Charge.Data().Now)
			record := numbers(at, contract.Life(r).Microseconds())
			record = contract.AppendCharge(record, &d.Charge, q.note())
			_, _, _ = s.step(ctx, keyOf(&r.Claims[0], seenKey), stepRecordID, r.ID, record)
		}
	}
	if d.Denier == 0 {
		return
	}
	denier := &r.Claims[d.Denier-1]
	if r.Mode != stint.ModeTake || r.Bans == nil || r.Bans.After == 0 || denier.Shared || denier.Cost == 0 {
		return
	}
	policy := append(numbers(ban[:]...), byte(r.Bans.After))
	policy = append(append(policy, numbers(r.Bans.Within.Microseconds(), r.Bans.Forgive.Microseconds())...),
		byte(len(r.Bans.Durations)))
	for _, duration := range r.Bans.Durations {
		policy = appendTime(policy, duration)
	}
	now, ban, err := s.step(ctx, oneKey{subject: denier.Subject, what: "strikes"}, stepStrike, "", policy)
	if err != nil || ban[0] == 0 {
		return
	}
	_, _, _ = s.step(ctx, oneKey{subject: denier.Subject, what: "ban"}, stepSetBan, "", numbers(ban[:]...))
	d.Banned, d.BanLeft = true, micros(ban[0]-now)
	if d.RetryAfter != stint.Never {
		d.RetryAfter = max(d.RetryAfter, d.BanLeft)
	}
}

// amendMigrating amends a charge key by key. See amendOne. A place that the store has forgotten is
// not taken back, for whether it was reset is in another key: the heartbeat fails as it was
// refused.
func (s *Store) amendMigrating(
	ctx context.Context, c *stint.Charge, a stint.Amendment, refused error,
) (done amended, err error) {
	settles := a.Kind == stint.AmendSettle || a.Kind == undo
	if id := c.Data().RequestID; id != "" && a.Kind == stint.AmendSettle && a.Cost == 0 {
		life := numbers(c.Data().IDLife.Microseconds())
		_, repeats, err := s.step(ctx, keyOf(&c.Claims()[0], seenKey), stepDropID, id, life)
		if err != nil || repeats[0] > 0 {
			return done, err
		}
	}
	if settles {
		a.Kind = settleOneKey
	}
	open := map[oneKey]bool{} // whether a scope's charge is yet to be settled
	for i := range c.Claims() {
		claim := c.Part(i)
		if claim.Claims()[0].Cost == 0 {
			continue
		}
		if settled := keyOf(&claim.Claims()[0], "settled"); settles {
			if _, marked := open[settled]; !marked {
				times := numbers(claim.Data().At, horizon(claim.Claims()[0].Limits))
				mark := append(le.AppendUint64(nil, c.Data().ID), times...)
				_, first, err := s.step(ctx, settled, stepMark, "", mark)
				if err != nil {
					return done, err
				}
				open[settled] = first[0] == 1
			}
			if !open[settled] {
				continue
			}
		}
		state := 0
		for _, p := range appendParts(nil, 0, 0, &claim.Claims()[0]) {
			part := driver.NewCharge(claim.Claims(), driver.ChargeData{ID: c.Data().ID, At: claim.Data().At})
			part.Claims()[0].Limits = p.limits
			if !p.holders() {
				part.Data().Generation = claim.Data().GenerationAt(state)
				if state++; !settles {
					continue
				}
			}
			one, err := s.amendKey(ctx, &part, a, p.end())
			if err == nil && one.claims == 0 && a.Kind == stint.AmendExtend && !a.KnownOnly {
				err = refused
			}
			if err != nil {
				return done, err
			}
			one.claims <<= i
			done = done.with(one)
		}
	}
	return done, nil
}

// amendKey amends a charge to one key, which stands in for that of settled charges too: that is not
// looked at. Whether the key, which ends like that, was reset is asked before a charge is raised.
func (s *Store) amendKey(ctx context.Context, c *stint.Charge, a stint.Amendment, end string) (amended, error) {
	raises := uint16(0)
	if a.Kind == settleOneKey && a.Cost > c.Claims()[0].Cost {
		_, reset, err := s.step(ctx, keyOf(&c.Claims()[0], "settled"), stepSeeReset, "",
			append(append(numbers(c.Data().At), byte(len(end))), end...))
		if err != nil {
			return amended{}, err
		}
		raises = uint16(1 - reset[0])
	}
	parts := partsOf(nil, c.Claims())
	s.sets.fill(parts)
	k, err := s.newKeys()
	if err != nil {
		return amended{}, err
	}
	k.ofPart(&parts[0])
	k.ofPart(&parts[0])
	return s.sendAmend(ctx, &k, c, a, parts, raises)
}

// horizon is for how long after its time a charge could be settled, at least, in microseconds: a
// fixed window and another one, the time in which a full meter empties, or that in which it is
// raised late.
func horizon(limits []stint.Limit) int64 {
	longest := float64(storebounds.LateSettle)
	for i := range limits {
		l := &limits[i]
		longest = max(longest, float64(l.Window.Microseconds())*(2+float64(l.Capacity())/float64(max(l.Max, 1))))
	}
	return int64(min(longest, float64(stint.MaxUnits/4)))
}

// commandMigrating carries out a command key by key. The states are those of the last keys.
func (s *Store) commandMigrating(ctx context.Context, c *stint.Command, all []string, states []part,
	notes []note) error {
	for i := range all {
		var own []part
		if i > 0 {
			notes = nil // they are in the first key
		}
		if first := len(all) - len(states); i >= first {
			own = states[i-first : i-first+1]
		}
		err := s.sendCommand(ctx, c, all[i:i+1], own, notes)
		if err != nil || c.Kind == stint.CommandBan { // which leaves the strikes alone
			return err
		}
	}
	return nil
}
