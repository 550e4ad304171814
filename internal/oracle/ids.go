package oracle

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// seenID is the id of a charged request, with the request's charge. The store forgets the id at the
// instant `until`.
type seenID struct {
	id             string
	until, repeats int64
	charge         stint.Charge
}

// seen returns the record of the request's id, or nil if the id is not in force.
func (s *Store) seen(r *stint.Request, now int64) *seenID {
	if r.ID == "" || !contract.Charges(&r.Claims[0]) || r.Terms().Booked != nil {
		return nil
	}
	return s.inForce(&r.Claims[0], r.ID, contract.Life(r).Microseconds(), now)
}

// inForce returns the record of an id in the scope of c, or nil if the id is not in force.
func (s *Store) inForce(c *stint.Claim, id string, life, now int64) *seenID {
	list := s.ids[scopeOf(c)]
	for i := range list {
		if list[i].id == id && list[i].until > now && list[i].until <= now+2*life {
			return &list[i]
		}
	}
	return nil
}

// remember records the request's id for a charge at the given instant.
func (s *Store) remember(r *stint.Request, now, at int64) {
	if r.ID == "" || !contract.Charges(&r.Claims[0]) || r.Terms().Booked != nil || s.seen(r, now) != nil {
		return
	}
	s.forget(&r.Claims[0], r.ID)
	key := scopeOf(&r.Claims[0])
	until := (at + contract.Life(r).Microseconds() + 15) / 16 * 16
	list := append(s.ids[key], seenID{id: r.ID, until: until})
	list = slices.DeleteFunc(list, func(k seenID) bool { return k.until <= now })
	if len(list) > driver.MaxIDs {
		lowest := slices.MinFunc(list, func(a, b seenID) int {
			return cmp.Or(cmp.Compare(a.until+a.repeats, b.until+b.repeats), cmp.Compare(a.id, b.id))
		})
		list = slices.DeleteFunc(list, func(k seenID) bool { return k.id == lowest.id })
	}
	s.ids[key] = list
}

// noteCharge stores the charge of d with the request's id, if the id has no charge yet or the
// request moves a booking up.
func (s *Store) noteCharge(r *stint.Request, d *stint.Decision) {
	if r.ID == "" || !contract.Charges(&r.Claims[0]) || d.Charge.IsZero() || d.Repeat {
		return
	}
	list := s.ids[scopeOf(&r.Claims[0])]
	for i := range list {
		if k := &list[i]; k.id == r.ID && (k.charge.IsZero() || r.Terms().Booked != nil) {
			k.charge = driver.NewCharge(slices.Clone(d.Charge.Claims()), *d.Charge.Data())
		}
	}
}

// recall returns the charge that the repeat r receives: a copy of `first`, the charge of the
// original request, but with the limits of r. If there is no such charge, or if the original
// request had other claims or another Hold, recall returns the zero charge.
func recall(r *stint.Request, first stint.Charge) stint.Charge {
	claims := slices.Clone(r.Claims)
	if first.IsZero() || len(claims) != len(first.Claims()) || r.Hold != first.Data().Hold {
		return stint.Charge{}
	}
	for i, c := range first.Claims() {
		if !slices.Equal(slices.Sorted(maps.Keys(c.Costs)), slices.Sorted(maps.Keys(claims[i].Costs))) ||
			c.Subject != claims[i].Subject || c.Scope != claims[i].Scope ||
			!slices.EqualFunc(c.Limits, claims[i].Limits, func(l, m stint.Limit) bool { return l.ID() == m.ID() }) {
			return stint.Charge{}
		}
		claims[i].Cost, claims[i].Costs = c.Cost, c.Costs
	}
	data := *first.Data()
	data.RequestID, data.IDLife = r.ID, contract.Life(r)
	return driver.NewCharge(claims, data)
}

// prolong extends the life of the request id of c, if the id is in force, so that it lasts at least
// IDLife from now.
func (s *Store) prolong(c *stint.Charge, now int64) {
	data := c.Data()
	if data.RequestID == "" {
		return
	}
	if k := s.inForce(&c.Claims()[0], data.RequestID, data.IDLife.Microseconds(), now); k != nil {
		k.until = max(k.until, (now+data.IDLife.Microseconds()+15)/16*16)
	}
}

func (s *Store) forget(c *stint.Claim, id string) {
	key := scopeOf(c)
	s.ids[key] = slices.DeleteFunc(s.ids[key], func(k seenID) bool { return k.id == id })
}
