package observe

import (
	"sync/atomic"
	"unsafe"
)

// Every counter has several copies, one in each shard, so that goroutines rarely write to the same
// memory when they count at the same time. The value of a counter is the sum of its copies.
const (
	shards    = 1 << shardBits
	shardBits = 3
	// lineWords is the number of counters in two cache lines, which processors fetch together.
	lineWords = 16
)

// tally is an array of counters. It is safe for concurrent use. The zero value has no counters.
type tally struct {
	counters []atomic.Int64
	stride   int // number of counters in a shard
}

func newTally(n int) tally {
	stride := (n + lineWords - 1) / lineWords * lineWords
	return tally{counters: make([]atomic.Int64, shards*stride), stride: stride}
}

// add adds n to the copy of counter i in shard s. It returns the new value of that copy.
func (t *tally) add(s shard, i int, n int64) int64 { return t.counters[int(s)*t.stride+i].Add(n) }

func (t *tally) sum(i int) (n int64) {
	for ; i < len(t.counters); i += t.stride {
		n += t.counters[i].Load()
	}
	return n
}

// shard is the index of a copy of the counters.
type shard uint32

// shardOf derives a shard from an address that only the calling goroutine uses, such as one on its
// stack. A random choice would take as long as counting.
func shardOf[T any](own *T) shard {
	// A stack has at least 2^pageBits bytes, so addresses in different stacks differ in the bits
	// above the lowest pageBits. spread is the multiplier of Fibonacci hashing.
	const pageBits, spread = 11, 0x9e3779b97f4a7c15
	return shard(uint64(uintptr(unsafe.Pointer(own))) >> pageBits * spread >> (64 - shardBits))
}
