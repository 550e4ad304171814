package resilience

import (
	"math"
	"sync/atomic"

	"github.com/stint-limiter/stint"
)

// leaseBlock is a number of units that the store has charged, to be used before its end.
type leaseBlock struct {
	end     leaseTime
	granted int64
	charge  stint.Charge
	debt    int64 // units used beyond those granted, after settling upwards; under the lease's lock

	_     [64]byte // units has a cache line of its own: all cores write it
	units atomic.Int64
	_     [64]byte
}

// maxBlocks is how many blocks a lease has at most. Two or three are usual.
const maxBlocks = 8

// blockClosed is in the units of a block that has ended: no request, however late, finds any there.
const blockClosed = math.MinInt64 / 2

// giveBack is a block that has ended, how many units were used, and how many of them beyond those
// granted.
type giveBack struct {
	charge     stint.Charge
	cost, debt int64
}

func (b *leaseBlock) live(now leaseTime) bool { return now.mono < b.end.mono && now.wall < b.end.wall }

// left is how many units there are. Requests that are about to put back what was too much for them
// may make it seem less.
func (b *leaseBlock) left() int64 { return max(0, b.units.Load()) }

// take takes n units if there are as many, and returns how many are left.
func (b *leaseBlock) take(n int64, now leaseTime) (left int64, ok bool) {
	if !b.live(now) || b.units.Load() < n {
		return 0, false
	}
	if left = b.units.Add(-n); left >= 0 {
		return left, true
	}
	b.units.Add(n)
	return 0, false
}

// takeUpTo takes n units, or as many as there are, and returns how many.
func (b *leaseBlock) takeUpTo(n int64) int64 {
	for {
		has := b.units.Load()
		k := min(has, n)
		if k <= 0 {
			return 0
		}
		if b.units.CompareAndSwap(has, has-k) {
			return k
		}
	}
}

// settle changes what was used by some units, up or down. It reports false if that cannot be. The
// lease's lock is held.
func (b *leaseBlock) settle(more int64) bool {
	if more > 0 {
		if more > stint.MaxUnits-b.granted-b.debt {
			return false
		}
		b.debt += more - b.takeUpTo(more)
		return true
	}
	if -more > b.granted-b.left()+b.debt {
		return false // more than requests have used
	}
	pay := min(-more, b.debt)
	b.debt -= pay
	b.units.Add(-more - pay)
	return true
}

// close ends the block, and returns how many of the units granted were used.
func (b *leaseBlock) close() (used int64) { return b.granted - max(0, b.units.Swap(blockClosed)) }
