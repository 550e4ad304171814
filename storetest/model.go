package storetest

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/oracle"
	"pgregory.net/rapid"
)

// Model drives a store and the reference through the same random histories and requires equal
// answers at every step: decisions, states, amendments. It also checks the store's decisions
// against the true log of events. The harness needs a Clock.
//
// The histories are the same in every run, so that only a change to the code can break a test. The
// flags of package rapid set their number and the seed: for example, -rapid.seed=0
// -rapid.checks=10000 runs 10,000 new histories. A failure prints the smallest history that rapid
// found.
func Model(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	if h.Clock == nil {
		t.Fatal("storetest: Model needs a harness with a Clock")
	}
	inspector := inspectorOf(t.Context(), h.Store)
	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		h.Clock.restart()
		plan := planGenerator(h).Draw(rt, "plan")
		w := &world{
			t: t, h: h, plan: plan,
			oracle:    oracle.New(h.Clock.micros),
			truth:     oracle.NewTruth(),
			inspector: inspector,
			prefix:    fmt.Sprintf("model-%p-%d-", &h, runs.Add(1)),
			limits:    map[stateKey]bool{},
			ids:       map[subjectScope][]int64{},
			denied:    map[string]int64{},
			wasBanned: map[string]bool{},
		}
		for _, s := range plan.steps {
			if err := w.do(s); err != nil {
				rt.Fatalf("%v\n%s", err, w.story())
			}
		}
	})
}

// Without this seed, rapid would choose a different one in every run.
var _ = flag.Set("rapid.seed", "1")

// world holds a store and the reference while they execute a history.
type world struct {
	t      testing.TB
	h      Harness
	plan   plan
	oracle *oracle.Store
	truth  *oracle.Truth
	prefix string

	inspector driver.Inspector // the store, or nil if it is not an inspector

	history []string
	charges []chargePair
	hint    int64 // the last wait that a decision announced, or the last lease, in microseconds

	// For calm: the limits of earlier requests, the times at which request ids expire, the last
	// denial of each subject, and the subjects that were banned and not unbanned since.
	limits    map[stateKey]bool
	ids       map[subjectScope][]int64
	denied    map[string]int64
	wasBanned map[string]bool
}

// chargePair is one charge as returned by the store and by the reference.
type chargePair struct {
	store, oracle stint.Charge
	booked        bool
}

// part returns both charges with only those claims whose bits are set. If no claim's bit is set,
// the charges keep all their claims.
func (p chargePair) part(bits uint) chargePair {
	var claims []int
	for i := range p.oracle.Claims() {
		if bits&(1<<i) != 0 {
			claims = append(claims, i)
		}
	}
	if len(claims) == 0 {
		return p
	}
	return chargePair{p.store.Part(claims...), p.oracle.Part(claims...), p.booked}
}

// maxCharges is the maximum number of recent charges that a history keeps as candidates for
// amendments.
const maxCharges = 40

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) story() string {
	return "history, clock in µs since its start, answers as the reference gave them:\n  " +
		strings.Join(w.history, "\n  ")
}

// at returns the time since the start of the clock, in microseconds.
func (w *world) at() int64 { return w.h.Clock.micros() - epoch.UnixMicro() }

// do executes one step on the store and the reference, and compares the answers.
func (w *world) do(s step) error {
	switch s.kind {
	case stepTake:
		return w.take(s)
	case stepFlood:
		return w.flood(s)
	case stepAmend:
		return w.amend(s)
	case stepAdvance:
		d := s.advance
		if s.toHint {
			d = w.hint + s.advance
		}
		w.h.Clock.Advance(micros(max(0, d)))
		return nil
	case stepBack:
		if err := w.calmAll(); err != nil {
			return err
		}
		w.h.Clock.Advance(-micros(s.advance))
		w.note("clock steps back by %d", s.advance)
		for subject, at := range w.denied {
			w.denied[subject] = min(at, w.h.Clock.micros())
		}
		return nil
	case stepReset, stepGiveBack, stepBan, stepUnban:
		return w.command(s)
	case stepInspect:
		return w.inspect(s)
	default:
		disturb := w.plan.disturbances[s.pick%len(w.plan.disturbances)]
		w.note("%d: %s", w.at(), disturb)
		w.h.Disturbances[disturb](w.t)
		return nil
	}
}

func (w *world) take(s step) error {
	r := w.request(s)
	var booked chargePair
	if s.move {
		if moving, of, ok := w.move(r, s.pick); ok {
			r, booked = moving, of
		}
	}
	if err := r.Validate(); err != nil {
		return nil // the request is invalid: two of its claims use one state
	}
	if err := w.calm(r); err != nil {
		return err
	}
	if r.Terms().Booked != nil && !slices.ContainsFunc(w.charges, func(c chargePair) bool {
		return c.oracle.Data().ID == booked.oracle.Data().ID
	}) {
		return nil // a store may have forgotten a state of the booking
	}
	now := w.h.Clock.micros()
	want, err := w.oracle.Take(w.t.Context(), r)
	if err != nil {
		return err
	}
	w.note("%d: %s → %s", w.at(), describe(r, w.prefix), answer(want))
	asked := r
	if r.Terms().Booked != nil {
		asked.Terms().Booked = booked.store.Data()
	}
	got, err := w.h.Store.Take(w.t.Context(), asked)
	if err != nil {
		return fmt.Errorf("take: %w", err)
	}
	if diff := differ(got, want); diff != "" {
		return fmt.Errorf("store and reference differ: %s", diff)
	}
	if err := (stint.Amendment{Kind: stint.AmendSettle}).Validate(&got.Charge); got.Charge.Data().ID != 0 && err != nil {
		return fmt.Errorf("the store's charge: %w", err)
	}
	w.remember(r, got, want)
	return w.truth.Took(now, asked, got)
}

// flood repeats a take at equal intervals, and records all takes in one line of the history.
func (w *world) flood(s step) error {
	before := len(w.history)
	for range s.pick {
		if err := w.take(s); err != nil {
			return err
		}
		w.h.Clock.Advance(micros(s.advance))
	}
	if len(w.history) > before {
		last := w.history[len(w.history)-1]
		w.history = w.history[:before]
		w.note("%d times %d apart, the last of them %s", s.pick, s.advance, last)
	}
	return nil
}

func (w *world) remember(r stint.Request, got, want stint.Decision) {
	if want.RetryAfter > 0 && want.RetryAfter <= stint.MaxWindow { // debts can last for centuries
		w.hint = want.RetryAfter.Microseconds()
	} else if r.Terms().Lease > 0 {
		w.hint = r.Terms().Lease.Microseconds()
	}
	if want.Charge.Data().ID != 0 {
		if r.Terms().Booked != nil {
			w.charges = slices.DeleteFunc(w.charges, func(c chargePair) bool {
				return c.booked && c.oracle.Data().At == r.Terms().Booked.At
			})
		}
		w.charges = append(w.charges, chargePair{got.Charge, want.Charge, want.RetryAfter > 0 && !want.Repeat})
		if len(w.charges) > maxCharges {
			w.charges = w.charges[1:]
		}
		if r.ID != "" && r.Terms().Booked == nil && !want.Repeat {
			until := max(want.Charge.Data().At, want.Charge.Data().Now) + contract.Life(&r).Microseconds()
			w.ids[subjectScopeOf(&r.Claims[0])] = append(w.ids[subjectScopeOf(&r.Claims[0])], until)
		}
	}
	if !want.Allowed && r.Bans.After > 0 && r.Mode == stint.ModeTake && !want.Repeat {
		denier := &r.Claims[want.Denier-1]
		if want.Banned {
			w.wasBanned[denier.Subject] = true
		} else if !denier.Shared && contract.Charges(denier) {
			w.denied[denier.Subject] = w.h.Clock.micros() // the denial was a strike
		}
	}
}

func (w *world) amend(s step) error {
	if len(w.charges) == 0 {
		return nil
	}
	i := s.pick % len(w.charges)
	c, a := w.charges[i].part(s.part), s.amendment
	if s.relative {
		a.Cost = min(max(0, c.oracle.Claims()[0].Cost+a.Cost), stint.MaxUnits)
	}
	if limits := c.oracle.Claims()[0].Limits; s.name > 0 {
		a.Costs, a.Cost = stint.Costs{limits[s.name%len(limits)].Name: a.Cost}, 0
	}
	if err := w.calm(stint.Request{Claims: c.oracle.Claims()}); err != nil {
		return err
	}
	if i >= len(w.charges) || w.charges[i].oracle.Data().ID != c.oracle.Data().ID {
		return nil // a store may have forgotten the charged state
	}
	now := w.h.Clock.micros()
	want, err := w.oracle.Amend(w.t.Context(), c.oracle, a)
	if err != nil {
		return err
	}
	kind := map[stint.AmendmentKind]string{
		stint.AmendSettle: "settle", stint.AmendExtend: "extend", stint.AmendRelease: "release"}[a.Kind]
	if a.KnownOnly {
		kind = "renew"
	}
	w.note("%d: %s charge of %d (%d claims) to %d %v with a debt up to %d → %v",
		w.at(), kind, c.oracle.Data().At-epoch.UnixMicro(), len(c.oracle.Claims()), a.Cost, a.Costs, a.MaxDebt, want)
	got, err := w.h.Store.Amend(w.t.Context(), c.store, a)
	if err != nil {
		return fmt.Errorf("amend: %w", err)
	}
	if got != want {
		return fmt.Errorf("store and reference differ: %s: %+v, want %+v", kind, got, want)
	}
	if a.Kind == stint.AmendSettle && got.Changed {
		// The rules do not define for how long settling one part of a charge prevents settling the
		// other claims of the subject. So the history keeps only the settled part. A settled
		// booking is not moved up.
		c.booked = false
		w.charges[i] = c
	}
	if got.Changed || c.oracle.Data().Hold > 0 {
		w.truth.Amended(now, c.store, a)
	}
	return nil
}

func (w *world) command(s step) error {
	c := stint.Command{Subject: w.subject(s.pick), For: micros(s.advance)}
	switch s.kind {
	case stepBan:
		c.Kind = stint.CommandBan
	case stepUnban:
		c.Kind = stint.CommandUnban
	default:
		claim := w.claim(s.claims[0])
		c.Kind, c.Subject, c.Scope, c.Limits = stint.CommandReset, claim.Subject, claim.Scope, claim.Limits
		if s.kind == stepGiveBack {
			c.Kind, c.Units = stint.CommandGiveBack, s.units
			if err := w.calm(stint.Request{Claims: []stint.Claim{claim}}); err != nil {
				return err
			}
		}
	}
	return w.both(c)
}

// both sends a command to the store and the reference.
func (w *world) both(c stint.Command) error {
	switch c.Kind {
	case stint.CommandReset:
		w.note("%d: reset %q %q %v", w.at(), short(c.Subject, w.prefix), c.Scope, c.Limits)
		w.truth.Forgot(w.h.Clock.micros(), c)
		delete(w.ids, subjectScope{c.Subject, c.Scope})
	case stint.CommandGiveBack:
		w.note("%d: give back %d to %q %q %v", w.at(), c.Units, short(c.Subject, w.prefix), c.Scope, c.Limits)
		w.truth.GaveBack(w.h.Clock.micros(), c)
	case stint.CommandBan:
		w.note("%d: ban %q for %v", w.at(), short(c.Subject, w.prefix), c.For)
		w.wasBanned[c.Subject] = true
	case stint.CommandUnban:
		w.note("%d: unban %q", w.at(), short(c.Subject, w.prefix))
		delete(w.denied, c.Subject)
		delete(w.wasBanned, c.Subject)
	}
	if err := w.oracle.Command(w.t.Context(), c); err != nil {
		return err
	}
	if err := w.h.Store.Command(w.t.Context(), c); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return nil
}

// inspect compares the inspections of the store and the reference, if the store is an inspector.
func (w *world) inspect(s step) error {
	if w.inspector == nil {
		return nil
	}
	c := w.claim(s.claims[0])
	if err := w.calm(stint.Request{Claims: []stint.Claim{c}}); err != nil {
		return err
	}
	want, err := w.oracle.Inspect(w.t.Context(), c)
	if err != nil {
		return err
	}
	w.note("%d: inspect %q %q %v → ban %s", w.at(), short(c.Subject, w.prefix), c.Scope, c.Limits, banText(want.Ban))
	got, err := w.inspector.Inspect(w.t.Context(), c)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if !got.Now.Equal(want.Now) || banText(got.Ban) != banText(want.Ban) || len(got.Windows) != len(want.Windows) {
		return fmt.Errorf("store and reference differ: inspected at %v, ban %s, %d windows; want %v, %s, %d",
			got.Now, banText(got.Ban), len(got.Windows), want.Now, banText(want.Ban), len(want.Windows))
	}
	for i, g := range got.Windows {
		v := want.Windows[i]
		if stateText(g.State) != stateText(v.State) || entriesText(g) != entriesText(v) || g.Held != v.Held {
			return fmt.Errorf("store and reference differ: %s is %s with %s, %d held; want %s with %s, %d held",
				v.Limit, stateText(g.State), entriesText(g), g.Held, stateText(v.State), entriesText(v), v.Held)
		}
	}
	return nil
}
