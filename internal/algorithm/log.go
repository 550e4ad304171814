package algorithm

// maxEntries is how many entries a log has at most.
const maxEntries = 250

// Log is the state of a sliding or fixed limit: a ring of (stamp, count) in
// order of time. The zero Log is empty.
//
// It is kept small, for there are millions. An entry is one word, 56 bits of
// stamp and 8 of count, until a count passes 255; from then on every entry is
// two words. A ring of one word is in the log itself. What few logs have is in
// more.
type Log struct {
	slots []uint64
	only  uint64 // the ring while there are no slots, else the newest stamp
	sum   int64  // of all entries
	last  int64  // the clock at the last write
	head  uint8  // where in the ring the oldest entry is
	n     uint8  // entries
	keep  uint8  // the largest burst in use
	wide  bool
	// Tag belongs to the owner of the log.
	Tag  uint32
	more *logMore
}

// logMore is what most logs do not have.
type logMore struct {
	bookings
	// kept is when keep was last used, if apart; else that was the last write.
	kept  int64
	apart bool
}

func (l *Log) booked() *bookings {
	if l.more == nil {
		return nil
	}
	return &l.more.bookings
}

func (l *Log) kept() int64 {
	if l.more != nil && l.more.apart {
		return l.more.kept
	}
	return l.last
}

func (l *Log) setKept(kept int64) {
	switch {
	case kept != l.last:
		if l.more == nil {
			l.more = new(logMore)
		}
		l.more.kept, l.more.apart = kept, true
	case l.more == nil:
	case l.more.len() == 0:
		l.more = nil
	default:
		l.more.apart = false
	}
}

// room is how many entries the ring holds.
func (l *Log) room() int {
	if l.wide {
		return len(l.slots) / 2
	}
	return max(len(l.slots), 1)
}

// at returns where in the ring the k-th oldest entry is.
func (l *Log) at(k int) int {
	i, room := int(l.head)+k, l.room()
	if i >= room {
		i -= room
	}
	return i
}

// entry returns the k-th oldest entry.
func (l *Log) entry(k int) (stamp, n int64) {
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
func (l *Log) set(k int, stamp, n int64) {
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
func (l *Log) resize(room int, wide bool) {
	words := room
	if wide {
		words *= 2
	}
	m := Log{slots: make([]uint64, words), n: l.n, wide: wide}
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		m.set(k, stamp, n)
	}
	l.slots, l.only, l.head, l.wide = m.slots, m.only, 0, wide
}

// oldest is the stamp of the oldest entry, which there is.
func (l *Log) oldest() int64 {
	if len(l.slots) == 0 {
		return int64(l.only) >> 8
	}
	if l.wide {
		return int64(l.slots[2*int(l.head)])
	}
	return int64(l.slots[l.head]) >> 8
}

// newest is the stamp of the newest entry, which there is.
func (l *Log) newest() int64 {
	if len(l.slots) == 0 {
		return int64(l.only) >> 8
	}
	return int64(l.only)
}

// Append adds n at a stamp, in order of time. It returns the newest stamp.
func (l *Log) Append(p *Params, stamp, n int64) int64 {
	l.sum += n
	if l.n > 0 {
		if s := l.newest(); s == stamp {
			_, m := l.entry(int(l.n) - 1)
			l.set(int(l.n)-1, s, m+n)
			return s
		} else if s > stamp {
			l.insert(p, stamp, n)
			return s
		}
	}
	l.makeRoom(p)
	l.n++
	l.set(int(l.n)-1, stamp, n)
	return stamp
}

// insert adds n at a stamp that is older than the newest. What lies ahead of it
// is little: leases, and what a clock that stepped back or a limit with longer
// slices has left.
func (l *Log) insert(p *Params, stamp, n int64) {
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
func (l *Log) makeRoom(p *Params) bool {
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

func (l *Log) mergeOldest() {
	_, n := l.entry(0)
	stamp, m := l.entry(1)
	l.set(1, stamp, n+m)
	l.head = uint8(l.at(1))
	l.n--
}

// dropOldest forgets k entries that sum up to n.
func (l *Log) dropOldest(k int, n int64) {
	if k == int(l.n) {
		l.head, l.n, l.sum = 0, 0, 0
		return
	}
	l.head = uint8(l.at(k))
	l.n -= uint8(k)
	l.sum -= n
}

// remove takes out the k-th oldest entry.
func (l *Log) remove(k int) {
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

// stepBack follows a clock that stepped back.
func (l *Log) stepBack(now int64) {
	back := l.last - now
	for k := range int(l.n) {
		stamp, n := l.entry(k)
		l.set(k, stamp-back, n)
	}
	if l.more != nil {
		l.more.shift(back)
		l.more.kept -= back
	}
	l.last = now
}

func (l *Log) clone() *Log {
	c := *l
	c.slots = append([]uint64(nil), l.slots...)
	if l.more != nil {
		m := *l.more
		m.bookings = *l.more.clone()
		c.more = &m
	}
	return &c
}

// Bytes is what the log holds beside itself.
func (l *Log) Bytes() int {
	b := 8 * len(l.slots)
	if l.more != nil {
		b += 16 + l.more.bytes()
	}
	return b
}

// Dead reports that forgetting the log changes no later answer, given how long
// its entries are kept under p.
func (l *Log) Dead(p *Params, now int64) bool {
	if now < l.last || l.kept()+int64(l.keep)*p.Window >= now {
		return false
	}
	if b := l.booked(); b.len() > 0 && b.latest()+2*int64(l.keep)*p.Window >= now {
		return false
	}
	if l.n == 0 {
		return true
	}
	return l.newest()+int64(l.keep)*p.hold < now
}
