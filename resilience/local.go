package resilience

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// local decides for a process that cannot ask the store. It knows what the process was granted, by
// the store and without it, and what others had used when the store last answered.
//
// own counts every unit that was granted to this process, as long as it counts. A unit that the
// store granted counts from the arrival of the answer, which is later than in the store.
//
// A process that has the store for itself decides by own alone: the limits are the same with the
// store and without. Of several processes each takes its part of what is left; since counts what
// this process took of that since the store last answered about the subject.
type local struct {
	seed          maphash.Seed
	own           *memorystore.Store
	since         *memorystore.Store
	parts         divisions
	stripes       [stripes]stripe
	most          int           // records in a stripe
	owing         atomic.Int64  // records with something to charge
	next          atomic.Uint32 // the stripe to collect that from
	step          atomic.Uint64 // how often the store was charged with what was granted without it
	resets        atomic.Uint64 // how many there were
	counterparts  counterparts
	recentCharges recentCharges
	mark          uint64 // of this process
	// settle and command act on the store, in the background.
	settle  func(*stint.Charge, settlement)
	command func(stint.Command)
}

// The ids of a memory store leave their highest bits free. They hold the mark of the process: the
// charge of another process must not be taken for one of ours.
const (
	markBits  = 12
	markShift = 64 - markBits
)

func (l *local) marked(id uint64) uint64 { return id | l.mark<<markShift }

// stripes is the number of locks that subjects are divided among.
const stripes = 256

// stripe holds the records of some subjects, and the lock for local decisions on them and for
// counting the store's answers about them.
type stripe struct {
	mu      sync.Mutex
	records map[uint64]*record // by subject and scope
	parts   []stint.Claim      // room for the claims of a request that a decision makes; see divide
	_       [24]byte           // the next lock is on another cache line
}

// recordBytes is about what a record takes.
const recordBytes = 256

func newLocal(bytes int64, now func() time.Time) (*local, error) {
	l := &local{seed: maphash.MakeSeed(), mark: 1 + rand.Uint64N(1<<markBits-1)}
	l.parts.seed = l.seed
	var err error
	if l.own, err = memorystore.New(memorystore.Config{MaxBytes: max(bytes/8*5, 1), Now: now}); err != nil {
		return nil, err
	}
	l.since, err = memorystore.New(memorystore.Config{MaxBytes: max(bytes/8, 1), Now: now})
	if err != nil {
		return nil, err
	}
	l.most = int(max(bytes/8/recordBytes/stripes, 4))
	for i := range l.counterparts {
		t := &l.counterparts[i]
		t.of, t.late = make(map[uint64]*counterpart), make(map[uint64]*counterpart)
		t.most = int(max(bytes/16/recordBytes/int64(len(l.counterparts)), 4))
	}
	l.recentCharges.slots = make([]recentCharge, 1<<bits.Len64(uint64(max(bytes/16/64, 64)-1)))
	for i := range l.stripes {
		l.stripes[i].records = make(map[uint64]*record)
	}
	return l, nil
}

func (l *local) close() {
	_ = l.own.Close() // they never fail
	_ = l.since.Close()
}

// identify returns the stripe of a claim, and the key of its record.
func (l *local) identify(c *stint.Claim) (s *stripe, key uint64) {
	subject := maphash.String(l.seed, c.Subject)
	key = mix(subject, oddSubject)
	if c.Scope != "" {
		key = mix(key^maphash.String(l.seed, c.Scope), oddScope)
	}
	return &l.stripes[subject%stripes], key
}

// locked is a set of stripes, a bit each.
type locked [stripes / 64]uint64

// lock takes the locks of all claims, in order.
func (l *local) lock(claims []stint.Claim) (set locked) {
	for i := range claims {
		set.add(maphash.String(l.seed, claims[i].Subject))
	}
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			l.stripes[i*64+bits.TrailingZeros64(word)].mu.Lock()
		}
	}
	return set
}

func (s *locked) add(subject uint64) {
	i := subject % stripes
	s[i/64] |= 1 << (i % 64)
}

func (l *local) unlock(set locked) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			l.stripes[i*64+bits.TrailingZeros64(word)].mu.Unlock()
		}
	}
}

// any reports whether there are records in locked stripes.
func (l *local) any(set locked) bool {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			if len(l.stripes[i*64+bits.TrailingZeros64(word)].records) > 0 {
				return true
			}
		}
	}
	return false
}

// find returns the record of a claim, or nil. The lock is held, as for all that follows.
func (l *local) find(c *stint.Claim) *record {
	s, key := l.identify(c)
	return s.records[key]
}

// record returns the record of a claim, a new one if there is none.
func (l *local) record(c *stint.Claim, now int64) *record {
	s, key := l.identify(c)
	r := s.records[key]
	if r == nil {
		if len(s.records) >= l.most {
			s.evict(now)
		}
		r = &record{subject: strings.Clone(c.Subject), scope: strings.Clone(c.Scope)}
		s.records[key] = r
	}
	return r
}

// evict forgets that of a few records of which others have used the least. Of its subject the
// process then knows only what it was granted itself.
func (s *stripe) evict(now int64) {
	const among = 8
	seen, victim, least := 0, uint64(0), math.Inf(1)
	for key, r := range s.records {
		if r.needed(now) {
			continue
		}
		if most := r.most(now); most < least {
			victim, least = key, most
		}
		if seen++; seen == among || least == 0 {
			break
		}
	}
	delete(s.records, victim)
}

// ban notes a ban, for decisions without the store.
func (l *local) ban(subject string, d time.Duration) {
	if d = min(d, stint.MaxWindow).Round(time.Microsecond); d >= stint.MinWindow {
		_ = l.own.Command(context.Background(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
	}
}

// unban forgets a ban: another process has changed something about the subject. If it is still
// banned, the store's next answer says so.
func (l *local) unban(subject string) {
	if subject != "" {
		_ = l.own.Command(context.Background(), stint.Command{Kind: stint.CommandUnban, Subject: subject})
	}
}

// anyPlace reports whether claims take a place under a concurrency limit.
func anyPlace(claims []stint.Claim) bool {
	for i := range claims {
		c := &claims[i]
		for k := range c.Limits {
			if c.Limits[k].Algorithm == stint.AlgorithmConcurrency && c.Cost > 0 {
				return true
			}
		}
	}
	return false
}
