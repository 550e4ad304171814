package oracle

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// state holds the usage of one subject in one scope, under all limits with the same name.
type state struct {
	generation uint32
	last       int64
	limits     map[string]*counts // by the ID of the limit
}

func (st *state) clone() *state {
	c := &state{generation: st.generation, last: st.last, limits: map[string]*counts{}}
	for id, k := range st.limits {
		c.limits[id] = k.clone()
	}
	return c
}

// stepBack reports whether the clock stepped back. If so, it moves the entries and bookings of the
// state back by as much. Calendar periods and held units do not move.
func (st *state) stepBack(now int64) bool {
	if now >= st.last {
		return false
	}
	step := st.last - now
	for _, k := range st.limits {
		if k.limit.Algorithm == stint.AlgorithmCalendar {
			continue // calendar periods do not move
		}
		for i := range k.entries {
			k.entries[i].at -= step
		}
		for i := range k.booked {
			k.booked[i].from -= step
			k.booked[i].until -= step
		}
		if k.meter != nil {
			k.meter.at = min(k.meter.at, now)
		}
	}
	st.last = now
	return true
}

// part is one limit of one claim of a request during a decision.
type part struct {
	claim *stint.Claim
	limit *stint.Limit
	// in is a copy of the limit's state, moved back if the clock stepped back. It is nil for a
	// concurrency limit, which has no state. All parts with the same state share the copy.
	in      *state
	stepped bool
	// counts is an opened copy of the limit's stored data. `seen` is what the decision is based on:
	// counts or, if the request replaces a booking, a copy with fewer bookings.
	counts, seen kept
	booked       bool // the limit has the booking that the request replaces
}

func (p *part) cost() int64 { return p.claim.CostOf(p.limit) }

// kept is the stored data of one limit. Its methods are named after terms in docs/rules.md.
// [kept.open] must be called before the other methods.
type kept interface {
	open(l *stint.Limit, now int64)
	used(l *stint.Limit) int64
	reset(l *stint.Limit, now int64) int64
	// asOf returns the used and reset values at the instant at which a booking begins. Bookings
	// that begin later do not count.
	asOf(l *stint.Limit, at int64) (used, reset int64)
	fits(l *stint.Limit, now, cost int64) bool
	earliest(l *stint.Limit, from, cost int64) int64
	bookings() []booking
	settle(l *stint.Limit, now int64, c settlement) (charged int64, applied bool)
	giveBack(l *stint.Limit, now, units int64) bool
	// show returns the entries for an inspection.
	show(l *stint.Limit) []driver.Entry
}

// openAll returns an opened copy of the stored data for every limit of every claim.
func (s *Store) openAll(claims []*stint.Claim, now int64) []*part {
	var parts []*part
	copies := map[stateKey]*part{} // first part with each state
	for _, c := range claims {
		for i := range c.Limits {
			p := &part{claim: c, limit: &c.Limits[i]}
			if p.limit.Algorithm == stint.AlgorithmConcurrency {
				h := &holders{}
				if stored := s.holders[keyOf(c, p.limit)]; stored != nil {
					h.list = slices.Clone(stored.list)
				}
				p.stepped = h.stepBack(p.limit, now)
				p.counts = h
			} else {
				key := stateOf(c, p.limit)
				first := copies[key]
				if first == nil {
					first = p
					copies[key] = p
					p.in = &state{last: now, limits: map[string]*counts{}}
					if stored := s.states[key]; stored != nil {
						p.in = stored.clone()
					}
					p.stepped = p.in.stepBack(now)
				}
				p.in, p.stepped = first.in, first.stepped
				p.counts = &counts{}
				if k := p.in.limits[p.limit.ID()]; k != nil {
					p.counts = k.clone()
				}
			}
			p.counts.open(p.limit, now)
			p.seen = p.counts
			parts = append(parts, p)
		}
	}
	return parts
}

func (s *Store) write(p *part, now int64) {
	if p.in == nil {
		s.holders[keyOf(p.claim, p.limit)] = p.counts.(*holders)
		return
	}
	k := p.counts.(*counts)
	k.limit, k.books = *p.limit, false
	p.in.limits[p.limit.ID()] = k
	p.in.last = now
	if p.in.generation == 0 {
		p.in.generation = s.drawGeneration()
	}
	s.states[stateOf(p.claim, p.limit)] = p.in
}

// writeSteps writes the states that were moved back because the clock stepped back, if the request
// would charge them. It does so even if the request is denied, because a denial must not hide the
// step from the next decision.
func (s *Store) writeSteps(parts []*part, now int64) {
	for _, p := range parts {
		if !p.stepped || p.cost() == 0 {
			continue
		}
		if p.in != nil {
			s.states[stateOf(p.claim, p.limit)] = p.in
		} else if stored := s.holders[keyOf(p.claim, p.limit)]; stored != nil {
			stored.stepBack(p.limit, now)
		}
	}
}
