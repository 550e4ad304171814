package memorystore

// index finds records by the hash of their key. It uses open addressing with linear probing, four
// bytes per slot and no tombstones. It grows by half when seven eighths of its slots are in use,
// and shrinks when fewer than three eighths are.
type index struct {
	slots []uint32 // 8 bits of the hash, 24 bits of the record number plus one; 0 if empty
	used  int
}

// home returns the slot where the search for a hash starts.
func (x *index) home(hash uint64) int {
	return int(uint64(uint32(hash)) * uint64(len(x.slots)) >> 32)
}

// slot returns the content of a record's slot.
func slot(hash uint64, n uint32) uint32 { return hashBits(hash) | (n + 1) }

func hashBits(hash uint64) uint32 { return uint32(hash>>40) << 24 }

// full reports whether one more record needs a larger index.
func (x *index) full() bool { return x.used >= len(x.slots)-len(x.slots)/8 }

// clear empties the index and gives it the given number of slots, but at least 16. The caller must
// add all records again.
func (x *index) clear(slots int) {
	x.slots = make([]uint32, max(16, slots))
	x.used = 0
}

// put adds a record. The index must not be full.
func (x *index) put(hash uint64, n uint32) {
	i := x.home(hash)
	for x.slots[i] != 0 {
		i = x.next(i)
	}
	x.slots[i] = slot(hash, n)
	x.used++
}

func (x *index) next(i int) int {
	if i++; i == len(x.slots) {
		return 0
	}
	return i
}

// move changes the number of a record in the index.
func (x *index) move(hash uint64, from, to uint32) {
	i := x.home(hash)
	for x.slots[i] != slot(hash, from) {
		i = x.next(i)
	}
	x.slots[i] = slot(hash, to)
}

// remove removes a record from the index, and moves other records so that no gap is left. hashOf
// returns the hash of any record.
func (x *index) remove(hash uint64, n uint32, hashOf func(n uint32) uint64) {
	gap := x.home(hash)
	for x.slots[gap] != slot(hash, n) {
		gap = x.next(gap)
	}
	for i := x.next(gap); x.slots[i] != 0; i = x.next(i) {
		home := x.home(hashOf(x.slots[i]&(1<<24-1) - 1))
		// The record at i may move to the gap, unless its home comes after the gap.
		if gap <= i && (home <= gap || home > i) || gap > i && home <= gap && home > i {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = 0
	x.used--
}
