package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"pgregory.net/rapid"
)

// plan is a random history before it is executed. Steps pick from few subjects, scopes and limits,
// so that they share states.
type plan struct {
	families     [][]stint.Limit
	bans         *stint.BanPolicy
	disturbances []string
	oneSubject   bool // whether all claims of a request have the same subject
	subjects     int
	scopes       int
	steps        []step
}

// GoString returns a short description for rapid to print. The history has the details.
func (p plan) GoString() string { return fmt.Sprintf("%d steps under %v", len(p.steps), p.families) }

type stepKind int

const (
	stepTake stepKind = iota
	stepAmend
	stepAdvance
	stepBack
	stepReset
	stepGiveBack
	stepBan
	stepUnban
	stepInspect
	stepDisturb
	stepFlood
	// stepRare stands for one of the kinds that the function rare returns. If the function common
	// listed these kinds itself, they would crowd out the others.
	stepRare
)

type step struct {
	kind      stepKind
	request   stint.Request // without claims and bans
	claims    []claimPick
	bans      bool
	move      bool // whether to move up the booking that pick selects
	pick      int
	amendment stint.Amendment
	relative  bool
	part      uint // claims to amend, one bit each; 0 means all
	name      int  // selects the only limit name to amend; 0 means all names
	advance   int64
	toHint    bool
	units     int64 // units to give back
}

// claimPick is a claim whose subject, scope and limits are given as indexes.
type claimPick struct {
	subject, scope int
	limits         [][2]int // indexes of a family and of a variant in it
	cost           int64
	named          []int64 // costs for the names of limits, in order; nil if cost applies to all
	shared         bool
}

// huge is a large cost, but small enough that the sum of several is at most 2^53. The rules limit
// the sum of charges to 2^53, but not the sum of charges and bookings.
const huge = stint.MaxUnits / 8

// families returns the limits that plans choose from. The limits in a family share a state, and
// differ in fields that may change at run time, such as Max and Burst.
func families() [][]stint.Limit {
	const odd = 1000003 * time.Microsecond
	second, day := stint.PerSecond, stint.PerDay
	return [][]stint.Limit{
		{second(4), second(3).BurstTimes(3), second(10), second(2).BurstTimes(2), second(0), second(3).BurstTimes(2)},
		{second(4).WithName("n"), second(126).WithName("n"), second(60).WithName("n").BurstTimes(3),
			second(1000).WithName("n"),
			second(126).WithName("n").WithLease()},
		{second(2).BurstTimes(2), second(2), second(7).BurstTimes(2), second(2).BurstTimes(5), second(50).BurstTimes(3),
			second(1).BurstTimes(100)},
		{stint.PerMinute(5), stint.PerMinute(126), stint.PerMinute(130).BurstTimes(2), stint.PerMinute(2).BurstTimes(5)},
		{day(123457).BurstTimes(2), day(99991).BurstTimes(3), day(1000), day(7).BurstTimes(2)},
		{stint.Per(7, odd), stint.Per(300, odd), stint.Per(2, odd).BurstTimes(7), stint.Per(150, odd).BurstTimes(2)},
		{stint.PerHour(20), stint.PerHour(100000), stint.PerHour(5).BurstTimes(10)},
		{stint.Per(2, time.Millisecond), stint.Per(200, time.Millisecond)},
		{fixed(3, time.Second),
			fixed(10, time.Second),
			{Window: time.Second, Algorithm: stint.AlgorithmFixed}},
		{{Max: 5, Window: odd, Algorithm: stint.AlgorithmFixed, Name: "odd"},
			{Max: huge, Window: odd, Algorithm: stint.AlgorithmFixed, Name: "odd"}},
		{stint.TokenBucket(20, 7, time.Second), stint.TokenBucket(5, 7, time.Second),
			stint.TokenBucket(20, 10, time.Second),
			stint.TokenBucket(3, 13, time.Second), stint.TokenBucket(9, 0, time.Second)},
		{stint.TokenBucket(11, 3, odd), stint.TokenBucket(4, 3, odd), stint.TokenBucket(30, 5, odd)},
		{stint.TokenBucket(3, 2, time.Second).WithName("n"), stint.TokenBucket(10, 4, time.Second).WithName("n")},
		{stint.TokenBucket(1, 1, time.Hour), stint.TokenBucket(0, 60, time.Hour)},
		{stint.Daily(3), stint.Daily(5).In("Pacific/Auckland"), stint.Daily(300).In("America/St_Johns"),
			stint.Daily(0)},
		{stint.Monthly(4), stint.Monthly(9).On(17), stint.Monthly(4).On(31).In("Asia/Kathmandu")},
		{chargeExpired(stint.Per(7, time.Minute).WithName("x")),
			chargeExpired(stint.Per(300, time.Minute).WithName("x"))},
		{holdThrough(stint.Per(50, time.Second).WithName("h")), stint.Per(500, time.Second).WithName("h")},
		{stint.Concurrency(2, time.Second), stint.Concurrency(5, time.Second), stint.Concurrency(1, time.Second),
			stint.Concurrency(0, time.Second)},
		{stint.Concurrency(3, time.Minute), stint.Concurrency(1, time.Minute)},
	}
}

func planGenerator(h Harness) *rapid.Generator[plan] {
	return rapid.Custom(func(t *rapid.T) plan {
		all := families()
		p := plan{
			disturbances: slices.Sorted(maps.Keys(h.Disturbances)),
			oneSubject:   h.SplitSubjects,
			subjects:     rapid.IntRange(1, 3).Draw(t, "subjects"),
			scopes:       rapid.IntRange(1, 2).Draw(t, "scopes"),
			bans: &stint.BanPolicy{
				After: rapid.IntRange(1, 4).Draw(t, "ban after"),
				Within: rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 10 * time.Second}).Draw(
					t, "ban within"),
				Durations: []time.Duration{500 * time.Millisecond, 3 * time.Second, 2 * time.Minute},
				Forgive:   10 * time.Second,
			},
		}
		for _, f := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), 1, 4, func(i int) string {
			return all[i][0].ID()
		}).Draw(t, "families") {
			p.families = append(p.families, all[f])
		}
		// Draw a list of lists, because rapid's lists have about seven elements: two levels make
		// about 50 steps.
		p.steps = slices.Concat(rapid.SliceOfN(rapid.SliceOfN(stepGenerator(p), 2, 40), 2, 40).Draw(t, "steps")...)
		return p
	})
}

// The functions common and rare return kinds of steps, repeated in proportion to their frequency.
// rapid prefers early elements, because it considers them simpler.
func common() []stepKind {
	return []stepKind{
		stepTake, stepAdvance, stepTake, stepAmend, stepTake, stepAdvance, stepTake, stepAmend,
		stepTake, stepTake, stepAdvance, stepTake, stepAmend, stepTake, stepAdvance, stepInspect, stepRare,
	}
}

func rare(p plan) []stepKind {
	kinds := []stepKind{stepGiveBack, stepBack, stepReset, stepFlood, stepBan, stepUnban, stepGiveBack}
	if len(p.disturbances) > 0 {
		kinds = append(kinds, stepDisturb, stepDisturb)
	}
	return kinds
}

func stepGenerator(p plan) *rapid.Generator[step] {
	kinds, rareKinds := rapid.SampledFrom(common()), rapid.SampledFrom(rare(p))
	claims := rapid.SliceOfN(claimGenerator(p), 1, 3)
	claim := rapid.SliceOfN(claimGenerator(p), 1, 1)
	return rapid.Custom(func(t *rapid.T) step {
		s := step{kind: kinds.Draw(t, "kind")}
		if s.kind == stepRare {
			s.kind = rareKinds.Draw(t, "rare kind")
		}
		switch s.kind {
		case stepTake:
			if s.claims = claim.Draw(t, "claim"); rapid.IntRange(0, 3).Draw(t, "several") == 0 {
				s.claims = claims.Draw(t, "claims")
			}
			r := &s.request
			r.Mode = rapid.SampledFrom([]stint.Mode{stint.ModeTake, stint.ModeTake, stint.ModeTake, stint.ModeReserve,
				stint.ModeReserve, stint.ModePeek, driver.ModeForce}).Draw(t, "mode")
			r.ID = rapid.SampledFrom([]string{"", "", "", "", "x", "y"}).Draw(t, "id")
			if r.ID != "" {
				r.IDLife = rapid.SampledFrom(
					[]time.Duration{time.Second, time.Minute, 90 * time.Second}).Draw(t, "id life")
			}
			r.MaxWait = rapid.SampledFrom(
				[]time.Duration{0, 0, time.Microsecond, 700 * time.Millisecond, time.Hour}).Draw(t, "max wait")
			s.bans = rapid.IntRange(0, 3).Draw(t, "bans") == 0
			fit := rapid.IntRange(0, 3).Draw(t, "fit") == 3
			if r.Terms().Fit = fit; fit {
				s.claims, r.Mode = s.claims[:1], stint.ModeTake
			}
			if fit && rapid.IntRange(0, 2).Draw(t, "lease") > 0 {
				r.ID, r.IDLife, r.Terms().Lease = "", 0, micros(advanceGenerator(p).Draw(t, "until"))
			}
			if !fit && r.Mode != stint.ModeReserve && rapid.IntRange(0, 2).Draw(t, "holds") == 2 {
				r.MaxWait = 0
				r.Hold = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Millisecond, 90 * time.Second,
					stint.MaxHold}).Draw(t, "hold")
			}
			if r.Mode == driver.ModeForce && rapid.IntRange(0, 2).Draw(t, "late") > 0 {
				r.MaxWait, r.Terms().Age = 0, micros(advanceGenerator(p).Draw(t, "age"))
				r.Terms().Refilled = rapid.OneOf(rapid.Map(advanceGenerator(p), micros),
					rapid.SampledFrom([]time.Duration{0, math.MaxInt64})).Draw(t, "refilled")
			}
			r.Terms().AtLeast = r.Mode == driver.ModeForce && rapid.IntRange(0, 3).Draw(t, "at least") == 0
			if r.Mode == stint.ModeReserve {
				s.move = rapid.IntRange(0, 2).Draw(t, "move") == 2
				s.pick = rapid.IntRange(0, maxCharges-1).Draw(t, "charge")
				r.Terms().Tentative = rapid.Bool().Draw(t, "tentative")
			}
		case stepAmend:
			s.pick = rapid.IntRange(0, maxCharges-1).Draw(t, "charge")
			s.part = rapid.SampledFrom([]uint{0, 0, 1, 2, 3, 4, 5, 6}).Draw(t, "part")
			s.amendment.Kind = rapid.SampledFrom(
				[]stint.AmendmentKind{stint.AmendSettle, stint.AmendSettle, stint.AmendSettle, stint.AmendExtend,
					stint.AmendRelease}).Draw(t, "amendment")
			if s.amendment.Kind == stint.AmendSettle {
				s.relative = rapid.Bool().Draw(t, "relative")
				s.amendment.Cost = rapid.SampledFrom([]int64{0, 0, -1, 1, 2, 7, 300, huge}).Draw(t, "true cost")
				s.amendment.Cost = max(s.amendment.Cost, map[bool]int64{true: -1}[s.relative])
				s.amendment.MaxDebt = rapid.SampledFrom([]int64{0, 0, 0, 1, 5, 300, huge}).Draw(t, "max debt")
			}
			s.name = rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "name")
			if s.amendment.Kind == stint.AmendExtend {
				s.amendment.Cost = rapid.SampledFrom([]int64{0, 0, 1, 2, 7, 300, huge}).Draw(t, "total")
				s.amendment.KnownOnly = rapid.IntRange(0, 3).Draw(t, "known only") == 3
			}
		case stepAdvance:
			s.advance, s.toHint = advanceGenerator(p).Draw(t, "advance"), rapid.IntRange(0, 4).Draw(t, "to hint") == 0
			if s.toHint {
				s.advance = rapid.Int64Range(-1, 1).Draw(t, "beside")
			}
		case stepBack:
			s.advance = rapid.SampledFrom([]int64{1, 1000, 300_000, 1_000_000, 3_600_000_000}).Draw(t, "back")
		case stepReset, stepInspect:
			s.claims = claim.Draw(t, "claim")
		case stepGiveBack:
			s.claims = claim.Draw(t, "claim")
			s.units = rapid.SampledFrom([]int64{1, 2, 3, 5, 100, 1000, huge, stint.MaxUnits}).Draw(t, "units")
		case stepBan, stepUnban:
			s.pick = rapid.IntRange(0, p.subjects-1).Draw(t, "subject")
			s.advance = rapid.SampledFrom([]int64{1000, 800_000, 60_000_000}).Draw(t, "ban")
		case stepFlood:
			s.claims, s.pick = claim.Draw(t, "claim"), rapid.IntRange(2, maxFlood).Draw(t, "flood")
			s.advance = advanceGenerator(p).Draw(t, "apart") / 2
			if rapid.Bool().Draw(t, "lease") {
				s.request.Terms().Lease = micros(advanceGenerator(p).Draw(t, "until"))
			}
		case stepDisturb:
			s.pick = rapid.IntRange(0, 100).Draw(t, "disturbance")
		}
		return s
	})
}

// advanceGenerator draws a duration in microseconds: a fixed one, one close to a window of the
// plan, or a multiple or a fraction of a window.
func advanceGenerator(p plan) *rapid.Generator[int64] {
	steps := []int64{0, 1, 15, 16, 1000, 8000, 100_000, 3_600_000_000, 7_300_000_001}
	for _, f := range p.families {
		window := f[0].Window.Microseconds()
		steps = append(steps, window, window-1, window+1, window/3, window/125, window*3, window/f[0].Capacity())
	}
	return rapid.SampledFrom(steps)
}

func claimGenerator(p plan) *rapid.Generator[claimPick] {
	return rapid.Custom(func(t *rapid.T) claimPick {
		c := claimPick{
			subject: rapid.IntRange(0, p.subjects-1).Draw(t, "subject"),
			scope:   rapid.IntRange(0, p.scopes-1).Draw(t, "scope"),
			cost: rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 3, 4, 5, 0, 10, 100, 127, huge, stint.MaxUnits}).Draw(
				t, "cost"),
			shared: rapid.IntRange(0, 4).Draw(t, "shared") == 4,
		}
		for _, f := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(p.families)-1), 1, len(p.families),
			rapid.ID).Draw(t, "limits") {
			v := 0 // usually the first variant, so that its history grows
			if rapid.IntRange(0, 2).Draw(t, "changed") == 0 {
				v = rapid.IntRange(0, len(p.families[f])-1).Draw(t, "variant")
			}
			c.limits = append(c.limits, [2]int{f, v})
		}
		if rapid.IntRange(0, 3).Draw(t, "several costs") == 3 {
			c.named = rapid.SliceOfN(rapid.SampledFrom([]int64{1, 2, 0, 5, 127, huge}), 4, 4).Draw(t, "costs")
		}
		return c
	})
}

// maxFlood is the maximum number of takes in a flood. It is enough to fill a log, so that old
// entries are merged.
const maxFlood = 300

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (w *world) subject(n int) string { return w.prefix + string(rune('a'+n)) }

func (w *world) claim(p claimPick) stint.Claim {
	c := stint.Claim{Subject: w.subject(p.subject), Scope: [...]string{"", "s"}[p.scope], Cost: p.cost,
		Shared: p.shared}
	for _, l := range p.limits {
		c.Limits = append(c.Limits, w.plan.families[l[0]][l[1]])
	}
	for i := range p.named {
		if i < len(c.Limits) {
			if c.Costs == nil {
				c.Costs = stint.Costs{}
			}
			c.Costs[c.Limits[i].Name] = p.named[i]
		}
	}
	return c
}

// move turns a reservation into a request to move up a remembered booking. It returns the request
// and the charge of the booking, and reports whether there is a booking that can be moved.
func (w *world) move(r stint.Request, pick int) (stint.Request, chargePair, bool) {
	var ahead []chargePair
	for _, c := range w.charges {
		if c.booked {
			ahead = append(ahead, c)
		}
	}
	if len(ahead) == 0 {
		return r, chargePair{}, false
	}
	c := ahead[pick%len(ahead)]
	r.Terms().Booked = c.oracle.Data()
	r.Claims = c.oracle.Claims()
	return r, c, r.Validate() == nil
}

// request builds a step's request. It drops options that are invalid for the limits: concurrency
// limits do not allow reservations, fitting or charges ahead of now, and buckets cannot be leased.
func (w *world) request(s step) stint.Request {
	r := s.request
	for _, p := range s.claims {
		r.Claims = append(r.Claims, w.claim(p))
	}
	if w.plan.oneSubject {
		for i := range r.Claims {
			r.Claims[i].Subject = r.Claims[0].Subject
		}
	}
	r.Bans = &stint.BanPolicy{} // bans in force apply, but no denial causes a ban
	if s.bans {
		r.Bans = w.plan.bans
	}
	if r.Mode == stint.ModeReserve && r.Validate() != nil {
		r.Mode, r.Terms().Tentative = stint.ModeTake, false
	}
	if r.Terms().AtLeast {
		r.Claims, r.MaxWait, r.Hold = r.Claims[:1], 0, 0
	}
	if r.Mode == driver.ModeForce && r.Validate() != nil {
		r.MaxWait = 0
	}
	if r.Terms().Lease > 0 && r.Validate() != nil {
		r.Terms().Fit, r.Terms().Lease = true, 0
	}
	if r.Terms().Fit && r.Validate() != nil {
		r.Terms().Fit = false
	}
	if r.Hold > 0 && r.Validate() != nil {
		r.Hold = 0
	}
	return r
}
