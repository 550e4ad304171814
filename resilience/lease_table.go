package resilience

import (
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint"
)

// leaseTable is a hash table of leases. Reading takes no lock: each slot is a linked list to which
// leases are only added at the head, and a reader at a lease that is removed still gets to those
// behind it. Changes are made under the lock of leases.
type leaseTable struct {
	heads []atomic.Pointer[lease] // their number is a power of two
	shift uint                    // the index of a lease is its hash shifted by this
	count int
	most  int
}

func newLeaseTable(most int) leaseTable {
	width := max(bits.Len(uint(most-1)), 1)
	return leaseTable{heads: make([]atomic.Pointer[lease], 1<<width), shift: uint(64 - width), most: most}
}

func (t *leaseTable) find(hash uint64, c *stint.Claim, bans bool) *lease {
	for ls := t.heads[hash>>t.shift].Load(); ls != nil; ls = ls.next.Load() {
		if ls.hash == hash && ls.bans == bans && ls.claim.Subject == c.Subject && ls.claim.Scope == c.Scope &&
			slices.Equal(ls.claim.Limits, c.Limits) {
			return ls
		}
	}
	return nil
}

func (t *leaseTable) all() iter.Seq[*lease] {
	return func(yield func(*lease) bool) {
		for i := range t.heads {
			for ls := t.heads[i].Load(); ls != nil; ls = ls.next.Load() {
				if !yield(ls) {
					return
				}
			}
		}
	}
}

// add reports false if the table is full.
func (t *leaseTable) add(ls *lease) bool {
	if t.count >= t.most {
		return false
	}
	t.count++
	head := &t.heads[ls.hash>>t.shift]
	ls.next.Store(head.Load())
	head.Store(ls)
	return true
}

// remove removes a lease, if it is there.
func (t *leaseTable) remove(ls *lease) {
	for at := &t.heads[ls.hash>>t.shift]; at.Load() != nil; at = &at.Load().next {
		if at.Load() == ls {
			at.Store(ls.next.Load())
			t.count--
			return
		}
	}
}

// leaseSketch remembers which requests went to the store, and when, so that those that come once
// cost neither memory nor time. A slot holds half of a hash and a time. Requests that share a slot
// may be forgotten: they are leased a little later.
type leaseSketch []atomic.Uint64

// sketchBits make a unit of the sketch's clock 65 µs. It wraps around after three days: at worst a
// request is then leased that need not be.
const sketchBits = 16

func newLeaseSketch(leases int) leaseSketch {
	return make(leaseSketch, 1<<bits.Len(uint(max(leases, 1024))))
}

// again notes a request, and returns the time since the one before, if that is remembered.
func (s leaseSketch) again(hash uint64, now int64) (since int64, ok bool) {
	tick := uint32(now>>sketchBits) | 1 // never zero, which is an empty slot
	old := s[hash&uint64(len(s)-1)].Swap(hash>>32<<32 | uint64(tick))
	if uint32(old) == 0 || old>>32 != hash>>32 {
		return 0, false
	}
	return max(0, int64(int32(tick-uint32(old)))) << sketchBits, true
}
