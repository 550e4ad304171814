package resilience

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/memorystore"
)

// ledger holds everything that a process needs to decide without the store. If memory permits, it
// has a record of every subject and scope for which it knows any usage. A record has a [count] for
// each limit. The ledger also holds the units and debts that have yet to be charged to the store.
type ledger struct {
	instances func() int64
	later     *sender
	clock

	seed    maphash.Seed
	mark    uint64 // identifies this process in the IDs of local charges
	stripes [stripes]stripe
	most    int64 // maximum number of records
	records atomic.Int64
	rules   [256]atomic.Pointer[rule]
	calls   atomic.Uint64 // the last number returned by nextCall
	owing   atomic.Int64  // number of records with something to charge
	debts   atomic.Int64  // number of debts of all records
	names   atomic.Int64  // number of request IDs that records remember
	next    atomic.Uint32 // the last stripe that debts were collected from
	bans    *memorystore.Store
	settled contract.SettledSet // charges that this process has settled, or whose places it has released
	entries entries
	dropped atomic.Int64 // number of evicted records that had something to charge
	closed  atomic.Bool

	// Each heartbeat of countInstances begins an epoch. safe is the epoch of the last successful
	// heartbeat: answers of earlier epochs came before that heartbeat.
	epoch, safe  atomic.Uint32
	replaced     chan *record // records whose first state has a new generation
	anyCommanded atomic.Int64 // when a subject whose name is unknown was last reset, banned or unbanned
}

// The IDs of local charges contain the mark of their process: the charge of another process must
// not be mistaken for a charge of this process.
const (
	markBits  = 12
	markShift = 64 - markBits
)

// stripes is the number of stripes of a ledger. Each subject belongs to one of them.
const stripes = 256

// stripe holds the records of some subjects, and their lock.
type stripe struct {
	mu      sync.Mutex
	records map[uint64]*record // by the hash of subject and scope
	owing   map[*record]struct{}
	locked  uint64   // number of times that the lock was taken
	_       [32]byte // the next lock is on another cache line
}

// recordBytes is the approximate size of a record with one limit under which units are owed.
const recordBytes = 664

// record holds the counts, debts and request IDs of a subject in a scope.
type record struct {
	stripe         *stripe
	subject, scope string
	counts         []count
	at             int64  // answers with an earlier time of the store's clock are outdated
	heard          int64  // when the newest answer arrived
	generation     uint32 // generation of the first state in the newest answer
	state          string // the name of the limits that the first state counts
	touched        uint64 // value of stripe.locked when the record was last needed
	born           int64
	resetAt        int64            // when a command last reset some limits, or was last announced
	epoch          uint32           // epoch of the newest answer
	replaced       int64            // when the first state got a new generation; 0 once that is handled
	debts          []*debt          // in the order in which their units were granted
	named          map[string]*debt // by request ID
	owing          bool             // whether there is something to charge
}

func newLedger(c *Config) (*ledger, error) {
	l := &ledger{
		seed: maphash.MakeSeed(), mark: 1 + rand.Uint64N(1<<markBits-1),
		most: max(c.LocalBytes/recordBytes, 4*stripes),
	}
	l.start, l.replaced = time.Now(), make(chan *record, sendMost)
	for i := range l.stripes {
		l.stripes[i].records, l.stripes[i].owing = make(map[uint64]*record), make(map[*record]struct{})
	}
	l.entries.of = make(map[uint64]*debt)
	l.entries.most = int(max(c.LocalBytes/4/recordBytes, 64))
	var err error
	l.bans, err = memorystore.New(memorystore.Config{MaxBytes: max(c.LocalBytes/8, 1)})
	return l, err
}

// nextCall returns the number of the first request of the next call to the store. The other
// requests of the call have the following numbers. A debt that is charged along with a request has
// the number of that request. The store decides the requests of a call in order, and all their
// answers have the same time. So the answer to a request counts those charges of the same call
// whose numbers are at most that of the request.
func (l *ledger) nextCall() uint64 { return l.calls.Add(maxBatch) }

func (l *ledger) close() {
	l.closed.Store(true)
	_ = l.bans.Close() // closing a memory store never fails
}

func (l *ledger) identify(c *stint.Claim) (s *stripe, key uint64) {
	subject := maphash.String(l.seed, c.Subject)
	key = mix(subject, oddSubject)
	if c.Scope != "" {
		key = mix(key^maphash.String(l.seed, c.Scope), oddScope)
	}
	return &l.stripes[subject%stripes], key
}

// locked is a set of stripes, with one bit for each.
type locked [stripes / 64]uint64

// lock locks the stripes of all claims, and returns the set of these stripes. It locks them in
// ascending order, to avoid deadlocks.
func (l *ledger) lock(claims []stint.Claim) (set locked) {
	for i := range claims {
		n := maphash.String(l.seed, claims[i].Subject) % stripes
		set[n/64] |= 1 << (n % 64)
	}
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			s := &l.stripes[i*64+bits.TrailingZeros64(word)]
			s.mu.Lock()
			s.locked++
		}
	}
	return set
}

func (l *ledger) unlock(set locked) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			l.stripes[i*64+bits.TrailingZeros64(word)].mu.Unlock()
		}
	}
}

// find returns the record of a claim, or nil. The lock of the claim's subject must be held, as for
// all functions below that use records or counts.
func (l *ledger) find(c *stint.Claim) *record {
	s, key := l.identify(c)
	return s.records[key]
}

// record returns the record of a claim. It creates the record if there is none.
func (l *ledger) record(c *stint.Claim, now int64) *record {
	s, key := l.identify(c)
	r := s.records[key]
	if r == nil {
		if l.records.Add(1) > l.most {
			l.evict(s, now)
		}
		r = &record{stripe: s, born: now, subject: strings.Clone(c.Subject), scope: strings.Clone(c.Scope),
			counts: make([]count, 0, len(c.Limits))}
		s.records[key] = r
	}
	r.touched = s.locked
	return r
}

// item is a limit of a claim together with its count.
type item struct {
	*count
	i     int // index of the claim
	k     int // index of the limit among the limits of all claims
	claim *stint.Claim
	rec   *record
	cost  int64 // 1 for a place, whatever the claim costs
}

// each returns an iterator over the limits of claims. It skips limits without a count, and those
// under which the claim has no cost.
func (l *ledger) each(claims []stint.Claim) iter.Seq[item] {
	return func(yield func(item) bool) {
		k := 0
		for i := range claims {
			c := &claims[i]
			rec := l.find(c)
			for j := range c.Limits {
				if n := rec.of(&c.Limits[j], j); n != nil && n.cost(c) > 0 && !yield(item{n, i, k, c, rec, n.cost(c)}) {
					return
				}
				k++
			}
		}
	}
}

// make creates missing counts for the limits of each claim that has a cost. It skips claims with
// leased limits, because leases count their units.
func (l *ledger) make(claims []stint.Claim, now int64) {
	for i := range claims {
		if c := &claims[i]; contract.Charges(c) && !slices.ContainsFunc(c.Limits, isLeased) {
			rec := l.record(c, now)
			for j := range c.Limits {
				l.count(rec, &c.Limits[j], j)
			}
		}
	}
}

// evict examines a few records of a stripe, and removes the one that has used the smallest part of
// its limits. It prefers records that owe nothing and were not reset recently.
func (l *ledger) evict(s *stripe, now int64) {
	const among = 8
	seen, victim, least := 0, uint64(0), math.Inf(1)
	for key, r := range s.records {
		if r.touched == s.locked { // the current request may need the record
			continue
		}
		used := r.used(now)
		if len(r.debts) > 0 || r.owing || r.resetAt > 0 && now-r.resetAt < int64(answerTime) {
			used += 2
		}
		if used < least {
			victim, least = key, used
		}
		if seen++; seen == among || least == 0 {
			break
		}
	}
	r := s.records[victim]
	if r == nil {
		return
	}
	if r.owing || len(r.debts) > 0 {
		l.dropped.Add(1)
	}
	for _, o := range slices.Clone(r.debts) {
		l.remove(o, goneDebt)
	}
	r.counts = nil
	l.noteOwing(r)
	l.unname(r)
	delete(s.records, victim)
	l.records.Add(-1)
}

// used returns the used fraction of the record's fullest limit.
func (r *record) used(now int64) (most float64) {
	for i := range r.counts {
		c := &r.counts[i]
		most = max(most, 1-float64(c.left(now, 0))/float64(max(c.capacity, 1)))
	}
	return most
}

// of returns the count of a limit, or nil if there is none. i is the index at which the count is
// expected.
func (r *record) of(l *stint.Limit, i int) *count {
	if r == nil {
		return nil
	}
	if i < len(r.counts) && contract.SameID(&r.counts[i].Limit, l) {
		return &r.counts[i]
	}
	for i := range r.counts {
		if contract.SameID(&r.counts[i].Limit, l) {
			return &r.counts[i]
		}
	}
	return nil
}

// count returns the count of a limit. It adds an empty one if there is none.
func (l *ledger) count(r *record, limit *stint.Limit, i int) *count {
	c := r.of(limit, i)
	if c == nil {
		r.counts = append(r.counts, count{rule: l.rule(limit)})
		return &r.counts[len(r.counts)-1]
	}
	l.follow(c, limit)
	return c
}

// follow updates a count to the Max and Burst of the limit in a request.
func (l *ledger) follow(c *count, limit *stint.Limit) {
	if c.Max == limit.Max && c.Burst == limit.Burst {
		return
	}
	old := c.rule
	c.rule = l.rule(limit)
	if m := c.meter; m != nil && old.unit != c.unit {
		if c.unit == 0 {
			c.meter = nil
			return
		}
		m.convert(old, c.rule)
	}
}

// rule returns the rule of a limit, with its own copies of the limit's strings. Counts of equal
// limits share one rule, which saves memory because few limits differ. If two limits hash to the
// same slot, the later rule replaces the earlier one.
func (l *ledger) rule(limit *stint.Limit) *rule {
	h := mix(uint64(limit.Max)^l.mark, oddWindow^uint64(limit.Window))
	h = mix(h^uint64(limit.Burst), oddKind^uint64(limit.Algorithm))
	slot := &l.rules[h%uint64(len(l.rules))]
	if r := slot.Load(); r != nil && r.Limit == *limit {
		return r
	}
	r := &rule{Limit: *limit, capacity: limit.Capacity(), part: int64(limit.Window) / parts, ledger: l}
	r.Name, r.Zone = strings.Clone(limit.Name), strings.Clone(limit.Zone)
	if contract.HasMeter(limit) && limit.Max > 0 {
		r.unit, r.rate, r.tick = limit.Meter()
	}
	slot.Store(r)
	return r
}

// clock counts nanoseconds since the ledger's start, and estimates how far the store's clock is
// ahead of the local one.
type clock struct {
	start time.Time
	ahead atomic.Int64 // how far the store's clock is ahead, in microseconds
}

func (c *clock) now() int64 {
	return int64(time.Since(c.start))
}

// wall converts now, a time of this clock, to the store's clock, in microseconds. It relies on the
// current estimate of that clock.
func (c *clock) wall(now int64) int64 {
	return c.start.UnixMicro() + now/int64(time.Microsecond) + c.ahead.Load()
}

// instant converts wall, a time of the store's clock, to this clock. If wall is in the same
// microsecond as now, instant returns now.
func (c *clock) instant(wall, now int64) int64 {
	return now - (c.wall(now)-wall)*int64(time.Microsecond)
}

// synchronize adjusts the estimate of the store's clock to d, the answer to a call that was sent at
// the time sent. The store read its clock between that time and now.
func (c *clock) synchronize(d *stint.Decision, sent time.Time) {
	read := d.Charge.Data().Now
	if read == 0 {
		return
	}
	now, ahead := c.now(), c.ahead.Load()
	least := read - c.wall(now) + ahead
	most := least + max(time.Since(sent).Microseconds()+1, 0)
	if next := min(max(ahead, least), most); next != ahead {
		c.ahead.CompareAndSwap(ahead, next)
	}
}
