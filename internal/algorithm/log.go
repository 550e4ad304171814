package algorithm

// MaxEntries is the maximum number of entries of a log. Limits with different slices that share a
// log also share this maximum.
const MaxEntries = 250

// log is a ring of entries, sorted by stamp. An entry has a stamp, and units that count until a
// span after the stamp. The zero log is empty.
//
// A log is small, because a store may have millions of logs. At first, an entry is one word: 56
// bits for the stamp and 8 for the units. Once an entry has more than 255 units, every entry is two
// words, stamp and units. A log that needs only one word has no ring. Examples:
//
//	words                        first  n  word
//	nil                          0      1  the entry
//	[c d a b]                    2      4  the stamp of d
//	[stamp units stamp units]    0      2  the stamp of the second   (wide)
type log struct {
	words []uint64 // ring of entries, if there is one
	word  uint64   // the only entry if there is no ring, else the newest stamp
	sum   int64    // total units of all entries
	first uint8    // index of the oldest entry in the ring
	n     uint8    // number of entries
	wide  bool     // whether entries are two words
	// calendar reports whether the stamps are ends of calendar periods.
	calendar bool
	// Owner is for the owner of the count. Nothing in this package reads it. Its bytes would
	// otherwise be padding. Outside this struct, the field would enlarge the memory store's record
	// of a subject by 8%, from 96 to 104 bytes.
	Owner uint32
}

// size returns the number of entries for which the log has room.
func (l *log) size() int {
	if l.wide {
		return len(l.words) / 2
	}
	return max(len(l.words), 1)
}

// position returns the index of the k-th oldest entry in the ring.
func (l *log) position(k int) int {
	i, size := int(l.first)+k, l.size()
	if i >= size {
		i -= size
	}
	return i
}

// entry returns the k-th oldest entry.
func (l *log) entry(k int) (stamp, n int64) {
	w := l.word
	if len(l.words) > 0 {
		i := l.position(k)
		if l.wide {
			return int64(l.words[2*i]), int64(l.words[2*i+1])
		}
		w = l.words[i]
	}
	return int64(w) >> 8, int64(w & 255)
}

// set writes the k-th oldest entry, but does not update the sum.
func (l *log) set(k int, stamp, n int64) {
	if n > 255 && !l.wide {
		l.resize(l.size(), true)
	}
	w := uint64(stamp)<<8 | uint64(n)
	if len(l.words) == 0 {
		l.word = w
		return
	}
	if i := l.position(k); l.wide {
		l.words[2*i], l.words[2*i+1] = uint64(stamp), uint64(n)
	} else {
		l.words[i] = w
	}
	if k == int(l.n)-1 {
		l.word = uint64(stamp)
	}
}

func (l *log) resize(size int, wide bool) {
	words := size
	if wide {
		words *= 2
	}
	// append makes the capacity as large as the allocation, so that Bytes counts all of it.
	m := log{words: append([]uint64(nil), make([]uint64, words)...), n: l.n, wide: wide}
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		m.set(k, stamp, n)
	}
	l.words, l.word, l.first, l.wide = m.words, m.word, 0, wide
}

// oldest returns the stamp of the oldest entry. The log must not be empty.
func (l *log) oldest() int64 {
	if len(l.words) == 0 {
		return int64(l.word) >> 8
	}
	if l.wide {
		return int64(l.words[2*int(l.first)])
	}
	return int64(l.words[l.first]) >> 8
}

// newest returns the stamp of the newest entry. The log must not be empty.
func (l *log) newest() int64 {
	if len(l.words) == 0 {
		return int64(l.word) >> 8
	}
	return int64(l.word)
}

// append adds n units at a stamp, which is usually not before the newest stamp.
func (l *log) append(p *Params, stamp, n int64) {
	l.sum += n
	if l.n > 0 {
		if s := l.newest(); s == stamp {
			l.add(n)
			return
		} else if s > stamp {
			l.insert(p, stamp, n)
			return
		}
	}
	l.grow(p)
	l.n++
	l.set(int(l.n)-1, stamp, n)
}

// add adds n units to the newest entry, but does not update the sum.
func (l *log) add(n int64) {
	if k := int(l.n) - 1; l.wide {
		l.words[2*l.position(k)+1] += uint64(n)
	} else {
		stamp, m := l.entry(k)
		l.set(k, stamp, m+n)
	}
}

// insert adds n units at a stamp before the newest. Usually few entries have a later stamp: those
// of leases, of bookings within their grace, and of a limit with longer slices.
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
	if int(l.n) == MaxEntries && k < 2 {
		// The new entry would be one of the two oldest, which are merged at the later stamp.
		s, m := l.entry(0)
		l.set(0, max(s, stamp), m+n)
		return
	}
	if merged := l.grow(p); merged {
		k--
	}
	l.n++
	for i := int(l.n) - 1; i > k; i-- {
		s, m := l.entry(i - 1)
		l.set(i, s, m)
	}
	l.set(k, stamp, n)
}

// grow makes room for one more entry. It reports whether it merged the two oldest entries to make
// room.
func (l *log) grow(p *Params) (merged bool) {
	size := l.size()
	if int(l.n) < size {
		return false
	}
	if size >= MaxEntries {
		l.mergeOldest()
		return true
	}
	most := MaxEntries
	if size < p.bound { // p.bound is usually enough
		most = p.bound
	}
	l.resize(max(1, min(2*size, most)), l.wide)
	return false
}

// mergeOldest merges the two oldest entries at the later stamp.
func (l *log) mergeOldest() {
	_, n := l.entry(0)
	stamp, m := l.entry(1)
	l.set(1, stamp, n+m)
	l.first = uint8(l.position(1))
	l.n--
}

// dropOldest drops the k oldest entries, which have n units in total.
func (l *log) dropOldest(k int, n int64) {
	if k == int(l.n) {
		l.first, l.n, l.sum = 0, 0, 0
		return
	}
	l.first = uint8(l.position(k))
	l.n -= uint8(k)
	l.sum -= n
}

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
	if len(l.words) > 0 && l.n > 0 {
		newest, _ := l.entry(int(l.n) - 1)
		l.word = uint64(newest)
	}
}

// find returns the index of the entry with the given stamp, or -1 if there is none with units.
func (l *log) find(stamp int64) int {
	k := int(l.n) - 1
	for ; k >= 0; k-- {
		if s, n := l.entry(k); s == stamp && n > 0 {
			break
		}
	}
	return k
}

func (l *log) shift(back int64) {
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		l.set(k, stamp-back, n)
	}
}
