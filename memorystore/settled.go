package memorystore

import (
	"cmp"
	"slices"

	"github.com/stint-limiter/stint/driver"
)

// settledList holds the settled charges of one subject and scope, sorted by time.
type settledList struct {
	list []settledCharge
	// The list can be forgotten after this time, because none of its charges can be settled again
	// by then.
	until int64
}

type settledCharge struct {
	at int64
	id uint64
}

func (c settledCharge) compare(d settledCharge) int {
	return cmp.Or(cmp.Compare(c.at, d.at), cmp.Compare(c.id, d.id))
}

func (s *settledList) has(at int64, id uint64) bool {
	_, found := slices.BinarySearchFunc(s.list, settledCharge{at, id}, settledCharge.compare)
	return found
}

// add adds a settled charge, and keeps the list at least until the instant `until`. If several
// claims of the charge have the same subject and scope, add is called for each of them, perhaps
// with a different `until`.
func (s *settledList) add(at int64, id uint64, until int64) {
	s.until = max(s.until, until)
	c := settledCharge{at, id}
	i, found := slices.BinarySearchFunc(s.list, c, settledCharge.compare)
	if found {
		return
	}
	s.list = slices.Insert(s.list, i, c)
	if len(s.list) > driver.MaxSettled {
		s.list = slices.Delete(s.list, 0, 1)
	}
}

func (s *settledList) dead(now int64) bool { return len(s.list) == 0 || s.until < now }

func (s *settledList) bytes() int { return 16 * cap(s.list) }
