package memorystore

import (
	"cmp"
	"slices"
	"sync"

	"github.com/stint-limiter/stint/internal/storebounds"
)

// settledList are the settled charges of one subject and scope, in order.
type settledList struct {
	list []settledCharge
	// From until on none of the charges can be settled, so that the list can be forgotten.
	until int64
}

type settledCharge struct {
	at int64
	id uint64
}

func (c settledCharge) compare(d settledCharge) int {
	return cmp.Or(cmp.Compare(c.at, d.at), cmp.Compare(c.id, d.id))
}

// has reports whether a charge is known to be settled.
func (s *settledList) has(at int64, id uint64) bool {
	_, found := slices.BinarySearchFunc(s.list, settledCharge{at, id}, settledCharge.compare)
	return found
}

// add remembers a charge until an instant at least. An earlier claim on the same subject and scope
// may have added it, until an earlier instant.
func (s *settledList) add(at int64, id uint64, until int64) {
	s.until = max(s.until, until)
	c := settledCharge{at, id}
	i, found := slices.BinarySearchFunc(s.list, c, settledCharge.compare)
	if found {
		return
	}
	s.list = slices.Insert(s.list, i, c)
	if len(s.list) > storebounds.MaxSettled {
		s.list = slices.Delete(s.list, 0, 1)
	}
}

func (s *settledList) dead(now int64) bool { return len(s.list) == 0 || s.until < now }

func (s *settledList) bytes() int { return 16 * cap(s.list) }

// maxResets bounds the resets that are remembered.
const maxResets = 4096

// resets are the states that were reset last. No charge from before a reset is raised; the
// generation of a state cannot tell once the state has expired.
type resets struct {
	mu   sync.Mutex
	list []resetState
	next int // to replace, once there are maxResets
}

type resetState struct {
	hash uint64 // of subject, scope and name
	at   int64
}

// add remembers a reset, instead of an earlier one of the same state.
func (r *resets) add(hash uint64, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch i := slices.IndexFunc(r.list, func(s resetState) bool { return s.hash == hash }); {
	case i >= 0:
		r.list[i].at = at
	case len(r.list) < maxResets:
		r.list = append(r.list, resetState{hash, at})
	default:
		r.list[r.next] = resetState{hash, at}
		r.next = (r.next + 1) % maxResets
	}
}

// since reports whether a state was reset at an instant or later, while a raise can still come.
func (r *resets) since(hash uint64, at, now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(s resetState) bool {
		return s.hash == hash && at <= s.at && s.at <= now && now < s.at+storebounds.LateSettle
	})
}
