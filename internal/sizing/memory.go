package sizing

import (
	"math/bits"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// Layout describes how Redis stores the limits of one claim: docs/redis-keys.md describes the
// string. Layout ignores that limits with different names have different keys.
type Layout struct {
	logs  []logLayout
	heads int   // bytes before the entries
	width int   // bytes of one entry of each log
	other int   // bytes outside the string, for concurrency limits
	kept  int64 // how long a bucket keeps the key after a charge, in microseconds
}

// logLayout describes a log. A limit without a log has the width 0.
type logLayout struct {
	width, most int   // bytes of an entry, and the maximum number of entries
	slice       int64 // length of a slice, whose charges share one entry; 0 if charges are not combined
	before      int   // bytes of one entry of each earlier log
}

// Sizes in bytes, from redisstore/lua/numbers.lua.
const (
	directory, directoryLimit, header = 2, 8, 20
	logHead, meterHead                = 36, 24
	block, back                       = 8, 7 // entries in a block, and behind the blocks
)

// Memory that Redis needs in addition to a key and its value: an object, and entries and buckets in
// the tables of keys and of expiries. It was measured with 10,000 keys as the growth of
// used_memory. A holder of a concurrency limit is a sorted set with one member.
const (
	keyOverhead = 104
	holder      = keyOverhead + 48 + 64
)

// NewLayout returns the layout of limits.
func NewLayout(limits []stint.Limit) *Layout {
	l := &Layout{heads: directory + header}
	for i := range limits {
		limit := &limits[i]
		var log logLayout
		switch p := algorithm.Of(limit); {
		case limit.Algorithm == stint.AlgorithmConcurrency:
			l.logs, l.other = append(l.logs, log), l.other+holder
			continue
		case limit.Algorithm == stint.AlgorithmBucket:
			if limit.Max > 0 {
				l.kept = max(l.kept, int64(2*float64(p.Cap)/float64(limit.Max)*float64(p.Window)))
			}
		case p.Span == 0:
			log = logLayout{contract.EntryBytes(p.Cap), 1, p.Slice, l.width}
		default:
			log = logLayout{contract.EntryBytes(p.Cap), int(min(p.Cap, stint.Resolution+1)), p.Slice, l.width}
		}
		l.heads += directoryLimit
		if log.width > 0 {
			l.heads += logHead
		}
		if contract.HasMeter(limit) {
			l.heads += meterHead
		}
		l.width += log.width
		l.logs = append(l.logs, log)
	}
	return l
}

// State is the state that Redis keeps of a subject in one scope: one key. State is small, and has
// no pointer for up to three limits, because a replay has one for every subject, and each request
// of a subject misses the cache.
type State struct {
	// Expires is when Redis drops the key, in Unix microseconds, unless it is charged before. Bytes
	// is the memory that the key takes.
	Expires int64
	Bytes   int32
	first   [3]logState
	more    *[]logState
}

func (s *State) log(i int) *logState {
	if i < len(s.first) {
		return &s.first[i]
	}
	return &(*s.more)[i-len(s.first)]
}

// logState is the state of a log. Its string grows in steps as entries are added.
type logState struct {
	slice   uint32  // the lowest bits of the number of the newest entry's slice
	used    float32 // units
	entries uint8
	step    uint8
}

// slack is how long Redis keeps a key after it stops counting, in microseconds.
const slack = 1_000_000

// Charge adds a charge with a cost at a time. Usages are those after the charge, one for each limit
// of the layout. Key is the length of the key's name.
func (s *State) Charge(l *Layout, key int, usages []stint.Usage, cost, now int64) {
	changed, needed := now >= s.Expires, now+l.kept+slack
	if changed {
		s.first = [3]logState{}
		if n := len(l.logs) - len(s.first); n > 0 {
			more := make([]logState, n)
			s.more = &more
		}
	}
	for i := range usages {
		u := &usages[i]
		needed = max(needed, now+u.ResetAfter.Microseconds()+slack)
		if log := &l.logs[i]; log.width > 0 && s.log(i).add(log, u.Used, cost, now) {
			changed = true
		}
	}
	if s.Expires < needed { // as in take.lua: an eighth longer, so that not every charge sets it
		s.Expires = needed + (needed-now)/8
	}
	if changed {
		s.Bytes = int32(l.bytes(key, s))
	}
}

// add adds a charge, after which used units are in use. It reports whether the size of the string
// changes. It assumes that the same share remains of earlier entries as of their units.
func (s *logState) add(l *logLayout, used, cost, now int64) bool {
	before, entries := s.used, int(s.entries)
	s.used = float32(used)
	if l.slice != 0 {
		slice := uint32(now / l.slice)
		if slice == s.slice && entries > 0 {
			return false // an existing entry takes the charge
		}
		s.slice = slice
	}
	if before > 0 {
		entries = int(float32(entries)*min(float32(used-cost)/before, 1) + 0.5)
	}
	s.entries = uint8(min(entries+1, l.most))
	step := stepOf(int(s.entries))
	if step <= s.step && !(s.entries == 1 && s.step >= firstRing) {
		return false
	}
	s.step = step
	return true
}

// The string of a log grows in steps: the newest entry is in the head, then some entries are behind
// the blocks, then one block is in front, then a ring of 2, 4, 8 or 16 blocks is.
const firstRing = 3

func stepOf(entries int) uint8 {
	switch {
	case entries <= 1:
		return 0
	case entries <= 1+back:
		return 1
	case entries <= 1+back+block:
		return 2
	}
	blocks := (entries - 1 - back - 1) / block
	return uint8(firstRing + max(bits.Len(uint(blocks-1)), 1) - 1)
}

// bytes returns the memory of a key and its string.
func (l *Layout) bytes(key int, s *State) int {
	first, second, ring := 0, 0, 0 // lengths of the string in the first steps, and of the rings
	for i := range l.logs {
		log, step := &l.logs[i], s.log(i).step
		if step >= 1 {
			first = l.heads + back*log.before + log.width
		}
		if step >= 2 {
			second = l.heads + back*l.width + block*(log.before+log.width)
		}
		if step >= firstRing {
			ring += block * log.width * min(2<<(step-firstRing), (log.most-1)/block)
		}
	}
	value := stringSize(l.heads)
	if ring > 0 {
		value = stringSize(l.heads + (back+block)*l.width + ring)
	} else {
		for _, length := range []int{first, second} {
			if stringSize(length) > value { // Redis doubles the allocation of a growing string
				value = stringSize(2 * length)
			}
		}
	}
	return keyOverhead + stringSize(key) + value + l.other
}

// stringSize returns the memory of a string in Redis, with its header, rounded up to a size class
// of jemalloc.
func stringSize(length int) int {
	switch {
	case length < 32:
		length += 2
	case length < 256:
		length += 4
	default:
		length += 6
	}
	class := 16
	if length > 128 {
		class = 1 << (bits.Len(uint(length-1)) - 3)
	}
	return (length + class - 1) / class * class
}
