package oracle

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// seenID is a request id that was charged, and until when it is remembered.
type seenID struct {
	id             string
	until, repeats int64
}

// seen returns the request's id if it is in force.
func (s *Store) seen(r *stint.Request, now int64) *seenID {
	if r.ID == "" || r.Claims[0].Cost == 0 || r.Terms().Booked != 0 {
		return nil
	}
	return s.inForce(&r.Claims[0], r.ID, contract.Life(r).Microseconds(), now)
}

// inForce returns an id if it is in force.
func (s *Store) inForce(c *stint.Claim, id string, life, now int64) *seenID {
	list := s.ids[scopeOf(c)]
	for i := range list {
		if list[i].id == id && list[i].until > now && list[i].until <= now+2*life {
			return &list[i]
		}
	}
	return nil
}

// remember records the request's id as charged at an instant.
func (s *Store) remember(r *stint.Request, now, at int64) {
	if r.ID == "" || r.Claims[0].Cost == 0 || r.Terms().Booked != 0 || s.seen(r, now) != nil {
		return
	}
	s.forget(&r.Claims[0], r.ID)
	key := scopeOf(&r.Claims[0])
	until := (at + contract.Life(r).Microseconds() + 15) / 16 * 16
	list := append(s.ids[key], seenID{id: r.ID, until: until})
	list = slices.DeleteFunc(list, func(k seenID) bool { return k.until <= now })
	if len(list) > storebounds.MaxIDs {
		lowest := slices.MinFunc(list, func(a, b seenID) int {
			return cmp.Or(cmp.Compare(a.until+a.repeats, b.until+b.repeats), cmp.Compare(a.id, b.id))
		})
		list = slices.DeleteFunc(list, func(k seenID) bool { return k.id == lowest.id })
	}
	s.ids[key] = list
}

// forget removes an id from the claim's scope.
func (s *Store) forget(c *stint.Claim, id string) {
	key := scopeOf(c)
	s.ids[key] = slices.DeleteFunc(s.ids[key], func(k seenID) bool { return k.id == id })
}
