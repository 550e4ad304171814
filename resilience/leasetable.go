package resilience

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// leaseTable finds leases. Looking takes no lock: a place of the table is a list that is only
// ever added to at its head, and who stands on a lease that is removed from it still gets to
// those behind. Changes are made under the lock of Leases.
type leaseTable struct {
	places    []atomic.Pointer[lease] // as many as a power of two
	shift     uint                    // a lease's place is its hash shifted by this
	bySubject map[string][]*lease     // by the name under which a subject is announced
	count     int
	most      int
}

func newLeaseTable(most int) leaseTable {
	width := max(bits.Len(uint(most-1)), 1)
	return leaseTable{
		places:    make([]atomic.Pointer[lease], 1<<width),
		shift:     uint(64 - width),
		bySubject: map[string][]*lease{},
		most:      most,
	}
}

func (t *leaseTable) find(hash uint64, c *stint.Claim, bans bool) *lease {
	for ls := t.places[hash>>t.shift].Load(); ls != nil; ls = ls.next.Load() {
		if ls.hash == hash && ls.bans == bans && ls.claim.Subject == c.Subject && ls.claim.Scope == c.Scope &&
			slices.Equal(ls.claim.Limits, c.Limits) {
			return ls
		}
	}
	return nil
}

// each calls f with every lease. It needs no lock.
func (t *leaseTable) each(f func(*lease)) {
	for i := range t.places {
		for ls := t.places[i].Load(); ls != nil; ls = ls.next.Load() {
			f(ls)
		}
	}
}

// add reports false if the table is full.
func (t *leaseTable) add(ls *lease) bool {
	if t.count >= t.most {
		return false
	}
	t.count++
	subject := keypart.Name(ls.claim.Subject)
	t.bySubject[subject] = append(t.bySubject[subject], ls)
	place := &t.places[ls.hash>>t.shift]
	ls.next.Store(place.Load())
	place.Store(ls)
	return true
}

// remove takes a lease out, if it is there.
func (t *leaseTable) remove(ls *lease) {
	for at := &t.places[ls.hash>>t.shift]; at.Load() != nil; at = &at.Load().next {
		if at.Load() != ls {
			continue
		}
		at.Store(ls.next.Load())
		t.count--
		subject := keypart.Name(ls.claim.Subject)
		rest := slices.DeleteFunc(t.bySubject[subject], func(o *lease) bool { return o == ls })
		if t.bySubject[subject] = rest; len(rest) == 0 {
			delete(t.bySubject, subject)
		}
		return
	}
}

// of returns the leases of a subject, or all of them if it is empty.
func (t *leaseTable) of(mu *sync.Mutex, subject string) (all []*lease) {
	mu.Lock()
	defer mu.Unlock()
	if subject != "" {
		return slices.Clone(t.bySubject[keypart.Name(subject)])
	}
	t.each(func(ls *lease) { all = append(all, ls) })
	return all
}

// leaseSketch remembers who missed last, and when, so that those who come once cost
// neither memory nor time. A place holds half of a hash and a time. Who shares a place with
// somebody else may be forgotten: it is leased a little later.
type leaseSketch []atomic.Uint64

// sketchBits make a unit of the sketch's clock 65 µs. It wraps around after three days:
// at worst somebody is then leased who need not be.
const sketchBits = 16

func newLeaseSketch(leases int) leaseSketch {
	return make(leaseSketch, 1<<bits.Len(uint(max(leases, 1024))))
}

// again notes a miss and returns the time since the one before, if that is remembered.
func (s leaseSketch) again(hash uint64, now int64) (since int64, ok bool) {
	tick := uint32(now>>sketchBits) | 1 // never zero, which is an empty place
	old := s[hash&uint64(len(s)-1)].Swap(hash>>32<<32 | uint64(tick))
	if uint32(old) == 0 || old>>32 != hash>>32 {
		return 0, false
	}
	return max(0, int64(int32(tick-uint32(old)))) << sketchBits, true
}
