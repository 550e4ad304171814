package algorithm

// maxEntries is how many entries a log has at most.
const maxEntries = 250

// log is a ring of entries, (stamp, count) in order of time. The zero log is empty.
//
// It is kept small, for there are millions. An entry is one word, 56 bits of
// stamp and 8 of count, until a count passes 255; from then on every entry is
// two words. A ring of one word is in the log itself.
type log struct {
	slots []uint64
	only  uint64 // the ring while there are no slots, else the newest stamp
	sum   int64  // of all entries
	head  uint8  // where in the ring the oldest entry is
	n     uint8  // entries
	wide  bool
	// Tag belongs to the owner of the count. It is here because there is room.
	Tag uint32
}

// room is how many entries the ring holds.
func (l *log) room() int {
	if l.wide {
		return len(l.slots) / 2
	}
	return max(len(l.slots), 1)
}

// at returns where in the ring the k-th oldest entry is.
func (l *log) at(k int) int {
	i, room := int(l.head)+k, l.room()
	if i >= room {
		i -= room
	}
	return i
}

// entry returns the k-th oldest entry.
func (l *log) entry(k int) (stamp, n int64) {
	w := l.only
	if len(l.slots) > 0 {
		i := l.at(k)
		if l.wide {
			return int64(l.slots[2*i]), int64(l.slots[2*i+1])
		}
		w = l.slots[i]
	}
	return int64(w) >> 8, int64(w & 255)
}

// set writes the k-th oldest entry, not the sum.
func (l *log) set(k int, stamp, n int64) {
	if n > 255 && !l.wide {
		l.resize(l.room(), true)
	}
	w := uint64(stamp)<<8 | uint64(n)
	if len(l.slots) == 0 {
		l.only = w
		return
	}
	if i := l.at(k); l.wide {
		l.slots[2*i], l.slots[2*i+1] = uint64(stamp), uint64(n)
	} else {
		l.slots[i] = w
	}
	if k == int(l.n)-1 {
		l.only = uint64(stamp)
	}
}

// resize moves the entries to a ring of another size or width.
func (l *log) resize(room int, wide bool) {
	words := room
	if wide {
		words *= 2
	}
	// Appended, the slots have the capacity that the allocator gives: Bytes is what they take.
	m := log{slots: append([]uint64(nil), make([]uint64, words)...), n: l.n, wide: wide}
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		m.set(k, stamp, n)
	}
	l.slots, l.only, l.head, l.wide = m.slots, m.only, 0, wide
}

// oldest is the stamp of the oldest entry, which there is.
func (l *log) oldest() int64 {
	if len(l.slots) == 0 {
		return int64(l.only) >> 8
	}
	if l.wide {
		return int64(l.slots[2*int(l.head)])
	}
	return int64(l.slots[l.head]) >> 8
}

// newest is the stamp of the newest entry, which there is.
func (l *log) newest() int64 {
	if len(l.slots) == 0 {
		return int64(l.only) >> 8
	}
	return int64(l.only)
}

// append adds n at a stamp, in order of time.
func (l *log) append(p *Params, stamp, n int64) {
	l.sum += n
	if l.n > 0 {
		if s := l.newest(); s == stamp {
			_, m := l.entry(int(l.n) - 1)
			l.set(int(l.n)-1, s, m+n)
			return
		} else if s > stamp {
			l.insert(p, stamp, n)
			return
		}
	}
	l.makeRoom(p)
	l.n++
	l.set(int(l.n)-1, stamp, n)
}

// insert adds n at a stamp that is older than the newest. What lies ahead of it
// is little: leases, places that waiters use now, and what a limit with longer slices
// has left.
func (l *log) insert(p *Params, stamp, n int64) {
	k := int(l.n) - 1
	for k > 0 {
		s, m := l.entry(k - 1)
		if s == stamp {
			l.set(k-1, s, m+n)
			return
		}
		if s < stamp {
			break
		}
		k--
	}
	if int(l.n) == maxEntries && k < 2 {
		// It would be one of the two oldest, which are merged at the later stamp.
		s, m := l.entry(0)
		l.set(0, max(s, stamp), m+n)
		return
	}
	if l.makeRoom(p) {
		k--
	}
	l.n++
	for i := int(l.n) - 1; i > k; i-- {
		s, m := l.entry(i - 1)
		l.set(i, s, m)
	}
	l.set(k, stamp, n)
}

// makeRoom makes room for one more entry. It reports whether it had to merge the
// two oldest for it.
func (l *log) makeRoom(p *Params) bool {
	room := l.room()
	if int(l.n) < room {
		return false
	}
	if room >= maxEntries {
		l.mergeOldest()
		return true
	}
	l.resize(grown(room, p.bound), l.wide)
	return false
}

// grown doubles a ring, but stops at what the limit needs.
func grown(room, bound int) int {
	if room < bound {
		return max(1, min(2*room, bound))
	}
	return max(1, min(2*room, maxEntries))
}

func (l *log) mergeOldest() {
	_, n := l.entry(0)
	stamp, m := l.entry(1)
	l.set(1, stamp, n+m)
	l.head = uint8(l.at(1))
	l.n--
}

// dropOldest forgets k entries that sum up to n.
func (l *log) dropOldest(k int, n int64) {
	if k == int(l.n) {
		l.head, l.n, l.sum = 0, 0, 0
		return
	}
	l.head = uint8(l.at(k))
	l.n -= uint8(k)
	l.sum -= n
}

// remove takes out the k-th oldest entry.
func (l *log) remove(k int) {
	_, n := l.entry(k)
	if k == 0 {
		l.dropOldest(1, n)
		return
	}
	l.sum -= n
	for ; k < int(l.n)-1; k++ {
		stamp, n := l.entry(k + 1)
		l.set(k, stamp, n)
	}
	l.n--
	if len(l.slots) > 0 && l.n > 0 {
		newest, _ := l.entry(int(l.n) - 1)
		l.only = uint64(newest)
	}
}

// find returns the number of the entry with a stamp, -1 if there is none.
func (l *log) find(stamp int64) int {
	k := int(l.n) - 1
	for ; k >= 0; k-- {
		if s, _ := l.entry(k); s == stamp {
			break
		}
	}
	return k
}

// shift moves all entries back in time.
func (l *log) shift(back int64) {
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		l.set(k, stamp-back, n)
	}
}
