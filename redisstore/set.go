package redisstore

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/calendar"
	"github.com/stint-limiter/stint/internal/contract"
)

// set holds the limits of a part, in the order and form in which a state stores them. See
// lua/numbers.lua and lua/state.lua.
type set struct {
	directory string // directory of a state with exactly these limits
	limits    []setLimit
	size      int    // bytes from the end of the directory to the end of the heads
	packed    []byte // the set in the form that lua/sets.lua reads
	numberAt  int    // offset of the set's number in packed
	// others are sets with the same limits for states with a different directory, which has more
	// limits or wider entries. usual is the one that fit the most recently charged state, or nil if
	// the set itself fit that state.
	others atomic.Pointer[[]*set]
	usual  atomic.Pointer[set]
}

// setLimit is one limit of a state.
type setLimit struct {
	algorithm stint.Algorithm
	window    int64
	width     int  // bytes of an entry of its log, 0 if it has none
	meter     bool // whether the state has a meter
	index     int  // index of the limit in the part, -1 if it is not requested
	asked     byte // see ASKED in lua/numbers.lua
	// held means that this entry is not a limit itself: it counts the held units of the limit with
	// the same algorithm and window. charges means that expired holds are charged.
	held, charges bool

	capacity, span, slice int64
	// unit, rate and tick are 0 if no meter is requested. A calendar limit stores the ends of
	// periods in them, see lua/sets.lua. A held entry stores durations in them, see
	// lua/numbers.lua.
	unit, rate, tick int64
}

// Values of setLimit.asked. See ASKED in lua/numbers.lua.
const (
	askedNot = iota
	askedFor
	askedCounted
	askedHolding
	askedChecked
)

// order compares limits by their order in a state. Held units come before their limit.
func (l *setLimit) order(m *setLimit) int {
	return cmp.Or(cmp.Compare(l.window, m.window), cmp.Compare(l.algorithm, m.algorithm),
		cmp.Compare(oneIf(m.held), oneIf(l.held)))
}

// storedCalendar stands for AlgorithmCalendar in directories. It has the value of
// AlgorithmConcurrency, because no directory contains a concurrency limit.
const storedCalendar = stint.AlgorithmConcurrency

// limitOf returns the entry of a limit in a set. now is the server's time. The entry of a calendar
// limit contains the periods around that time.
func limitOf(l *stint.Limit, index int, now int64) setLimit {
	if l.Algorithm == stint.AlgorithmCalendar {
		c := calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}
		ends := c.Around(now)
		return setLimit{algorithm: storedCalendar, window: l.Window.Microseconds(), index: index, asked: askedFor,
			capacity: l.Capacity(), width: contract.EntryBytes(l.Capacity()),
			unit: -c.Around(ends.Last - 1).Last, rate: ends.Last, slice: ends.This, tick: ends.Next}
	}
	m := setLimit{
		algorithm: l.Algorithm, window: l.Window.Microseconds(), index: index, asked: askedFor,
		capacity: l.Capacity(), meter: contract.HasMeter(l),
	}
	if m.meter {
		if m.unit, m.rate, m.tick = l.Meter(); m.rate == 0 {
			m.unit, m.tick = 0, 1 // the meter is never refilled
		}
	}
	if m.algorithm != stint.AlgorithmBucket {
		p := algorithm.Of(l)
		m.span, m.slice, m.width = p.Span, p.Slice, contract.EntryBytes(m.capacity)
	}
	return m
}

// newSet returns the set for the limits of a part. now is the server's time, and hold is the length
// of the requests' hold in microseconds, or 0.
func newSet(limits []stint.Limit, now, hold int64) *set {
	s := new(set)
	for i := range limits {
		l := limitOf(&limits[i], i, now)
		if hold > 0 && algorithm.Stock(&limits[i], hold) {
			l.asked = askedChecked
			held := setLimit{algorithm: l.algorithm, window: l.window, width: l.width, index: -1, asked: askedHolding,
				held: true, charges: limits[i].ChargeExpired, capacity: l.capacity, slice: ceil(hold, 64), rate: hold}
			if held.charges {
				held.tick = 2 * l.window
			}
			s.limits = append(s.limits, held)
		}
		s.limits = append(s.limits, l)
	}
	slices.SortFunc(s.limits, func(a, b setLimit) int { return a.order(&b) })
	s.pack()
	return s
}

// The layout of a state's value. See lua/state.lua and lua/numbers.lua.
const (
	plainState     = 'S' // first byte, without bookings
	directoryStart = 2   // bytes before a directory's first limit
	directoryLimit = 8   // bytes per limit
	headerSize     = 4 + 8 + 8
	logHead        = 4*8 + 4
	meterHead      = 3 * 8

	// In the array into which the scripts read a state: the index of the first head's first field,
	// and the numbers of fields in the heads of a log and of a meter.
	firstHead, logFields, meterFields = 12, 5, 3

	// In the directory, added to a limit's algorithm:
	hasMeter   = 4
	entryWidth = 8 // multiplied by the size of an entry without its stamp
	entryStamp = 7
	isHeld     = 64 // counts the held units of a limit
	isCharged  = 128
)

// withDirectory returns a set of the same limits for states that have the given directory. It
// returns nil if the directory is malformed, lacks something that the set needs, belongs to a state
// with bookings, or has more than maxKnown limits.
func (s *set) withDirectory(directory string) *set {
	if len(directory) < directoryStart || directory[0] != plainState || directory[1] > maxKnown ||
		len(directory) != directoryStart+directoryLimit*int(directory[1]) {
		return nil
	}
	other := new(set)
	found := 0
	for rest := directory[directoryStart:]; rest != ""; rest = rest[directoryLimit:] {
		kind := int(rest[0])
		l := setLimit{
			algorithm: stint.Algorithm(kind % hasMeter), window: readInt7(rest[1:]),
			meter: kind&hasMeter != 0, index: -1, held: kind&isHeld != 0, charges: kind&isCharged != 0,
		}
		if bytes := kind / entryWidth % 8; bytes > 0 {
			l.width = entryStamp + bytes
		}
		switch {
		case l.held && l.charges:
			l.span = 2 * l.window // keeps expired units that may have to be charged
		case l.held:
		case l.algorithm == stint.AlgorithmSliding:
			l.span = l.window
		case l.algorithm == stint.AlgorithmFixed:
			l.slice = l.window
		case l.algorithm == storedCalendar:
			l.span = 2 * l.window // keeps the start of a period, which a decision may need
		}
		for i := range s.limits {
			m := &s.limits[i]
			if l.held && l.asked == askedNot && !m.held && m.algorithm == l.algorithm && m.window == l.window {
				l.asked, l.capacity, l.span, l.tick = askedCounted, m.capacity, 0, int64(oneIf(l.charges))
			}
			if m.order(&l) != 0 {
				continue
			}
			if l.width < m.width || m.meter && !l.meter || l.charges != m.charges {
				return nil
			}
			width, meter := l.width, l.meter
			l = *m
			l.width, l.meter = width, meter
			found++
		}
		other.limits = append(other.limits, l)
	}
	if found != len(s.limits) {
		return nil
	}
	other.pack()
	return other
}

// often is a slice length in microseconds. With shorter slices, entries are added so often that the
// first read of a state should include more than the heads.
const often = 10_000_000

// pack computes the other fields of a set from its limits: directory, size, packed and numberAt.
func (s *set) pack() {
	directory, format := []byte{plainState, byte(len(s.limits))}, []byte("<I4dd")
	s.size = headerSize
	wide := false
	for i := range s.limits {
		l := &s.limits[i]
		kind := byte(l.algorithm) + isHeld*oneIf(l.held) + isCharged*oneIf(l.charges)
		if l.width > 0 {
			kind += byte(entryWidth * (l.width - entryStamp))
			format = append(format, "ddddI4"...)
			s.size += logHead
			wide = wide || l.slice < often
		}
		if l.meter {
			kind += hasMeter
			format = append(format, "ddd"...)
			s.size += meterHead
		}
		directory = be.AppendUint64(directory, uint64(l.window)|uint64(kind)<<56)
	}
	s.directory = string(directory)
	heads := len(directory) + s.size
	back, front := heads, heads
	for i := range s.limits {
		front += 7 * s.limits[i].width
	}
	rings := front
	for i := range s.limits {
		rings += 8 * s.limits[i].width
	}
	last := heads - 1
	if wide {
		last = rings - 1
	}
	b := append([]byte{byte(len(directory))}, directory...)
	b = append(b, byte(len(s.limits)))
	b = le.AppendUint16(b, uint16(heads))
	b = le.AppendUint16(b, uint16(rings))
	s.numberAt = len(b)
	b = append(b, 0, 0, 0, 1) // the set's number, the size of its others, and FRESH: see appendSets
	field := byte(firstHead)
	for _, text := range []string{string(format), strconv.Itoa(last)} {
		b = append(append(b, byte(len(text))), text...)
	}
	for i := range s.limits {
		l := &s.limits[i]
		log, meter := byte(0), byte(0)
		if l.width > 0 {
			log, field = field, field+logFields
		}
		if l.meter {
			meter, field = field, field+meterFields
		}
		b = append(b, l.asked, log, meter)
		b = appendInt(appendInt(appendInt(b, l.capacity), l.span), l.slice)
		b = append(b, byte(l.width))
		b = le.AppendUint16(b, uint16(back))
		b = le.AppendUint16(b, uint16(front))
		b = appendInt(appendInt(appendInt(b, l.unit), l.rate), l.tick)
		b = append(b, 0, 0, 0)
		back, front = back+7*l.width, front+8*l.width
	}
	s.packed = b
}

func (s *set) appendTo(b []byte, number int) []byte {
	at := len(b)
	b = append(b, s.packed...)
	b[at+s.numberAt] = byte(number)
	return b
}

// maxKnown is the maximum number of limits in a directory that can be learned: the format string
// for such a state must fit into 255 bytes.
const maxKnown = 27

// maxOthers is the maximum number of other sets that a set remembers.
const maxOthers = 4

// learn adds to the others of s a set for states with the given directory, if there is none yet and
// such a set is possible. It keeps only the newest maxOthers sets.
func (s *set) learn(directory string) {
	old := s.others.Load()
	var list []*set
	if old != nil {
		list = *old
	}
	if slices.ContainsFunc(list, func(o *set) bool { return o.directory == directory }) {
		return
	}
	other := s.withDirectory(directory)
	if other == nil {
		return
	}
	grown := append([]*set{other}, list[:min(len(list), maxOthers-1)]...)
	s.others.CompareAndSwap(old, &grown)
}

// fitted records which set fitted a state: s or one of its others.
func (s *set) fitted(used *set) {
	if used == s {
		used = nil
	}
	if s.usual.Load() != used {
		s.usual.Store(used)
	}
}

func (s *set) known() []*set {
	if list := s.others.Load(); list != nil {
		return *list
	}
	return nil
}

// sets caches sets by limits and hold. A set does not depend on the names of limits or on subjects.
type sets struct {
	mu    sync.RWMutex
	known map[string]*set
}

const maxSets = 10_000

// of returns the set for the limits of a part. hold is the length of the requests' hold, or 0. For
// calendar limits, the set contains the periods around the server's time, which clock returns.
func (s *sets) of(limits []stint.Limit, hold time.Duration, clock func() int64) *set {
	now := int64(0)
	var buf [256]byte
	key := buf[:0]
	if hold > 0 {
		key = le.AppendUint64(append(key, 255), uint64(hold))
	}
	for i := range limits {
		l := &limits[i]
		key = append(key, byte(l.Algorithm))
		key = le.AppendUint64(key, uint64(l.Max))
		key = le.AppendUint64(key, uint64(l.Burst))
		key = le.AppendUint64(key, uint64(l.Window))
		if l.Algorithm == stint.AlgorithmCalendar {
			now = cmp.Or(now, clock())
			_, end := contract.Period(l, now)
			key = append(le.AppendUint64(key, uint64(end)), byte(l.Start), byte(len(l.Zone)))
			key = append(key, l.Zone...)
		}
		if hold > 0 {
			key = append(key, oneIf(l.HoldThrough), oneIf(l.ChargeExpired))
		}
	}
	s.mu.RLock()
	known := s.known[string(key)]
	s.mu.RUnlock()
	if known != nil {
		return known
	}
	made := newSet(limits, now, hold.Microseconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[string(key)]; known != nil {
		return known
	}
	if s.known == nil || len(s.known) >= maxSets {
		s.known = map[string]*set{}
	}
	s.known[string(key)] = made
	return made
}
