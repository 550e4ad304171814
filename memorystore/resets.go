package memorystore

import (
	"slices"
	"sync"

	"github.com/stint-limiter/stint/internal/storebounds"
)

// maxResets is how many resets are remembered.
const maxResets = 4096

// resets are the states that were reset last, so that no charge from before is raised: a state that
// has expired has lost its generation.
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

// since reports whether a state was reset at an instant or later, as far as that matters.
func (r *resets) since(hash uint64, at, now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(s resetState) bool {
		return s.hash == hash && at <= s.at && s.at <= now && now < s.at+storebounds.LateSettle
	})
}
