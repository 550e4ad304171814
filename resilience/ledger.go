package resilience

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/settled"
	"github.com/stint-limiter/stint/memorystore"
)

// ledger is what a process has to know to decide without the store: see count. There is a record of
// every subject and scope that it asked about, as far as memory goes; of what was granted without
// the store, it also knows what the store has to be charged with.
type ledger struct {
	instances func() int64
	later     *sender
	clock     func() time.Time // nil is the machine's
	start     time.Time
	ahead     atomic.Int64 // of the store's clock, in microseconds

	seed    maphash.Seed
	mark    uint64 // of this process, in the ids of local charges
	stripes [stripes]stripe
	most    int // records in a stripe
	rules   [256]atomic.Pointer[rule]
	calls   atomic.Uint64 // to the store
	owing   atomic.Int64  // records with something to charge
	debts   atomic.Int64  // that records have
	names   atomic.Int64  // of requests that they remember
	resets  atomic.Uint64 // how many there were
	next    atomic.Uint32 // the stripe to collect that from
	bans    *memorystore.Store
	settled settled.Set // local charges
	entries entries
	dropped atomic.Int64 // what will not be charged
	closed  atomic.Bool
}

// The ids of local charges have the mark of their process: the charge of another process must not
// be taken for one of ours.
const (
	markBits  = 12
	markShift = 64 - markBits
)

// stripes is the number of locks that subjects are divided among.
const stripes = 256

// stripe holds the records of some subjects, and their lock.
type stripe struct {
	mu      sync.Mutex
	records map[uint64]*record // by subject and scope
	owing   map[*record]struct{}
	locked  uint64   // how often the lock was taken
	_       [32]byte // the next lock is on another cache line
}

// recordBytes is about what a record takes.
const recordBytes = 512

// record is what is known of a subject in a scope.
type record struct {
	stripe         *stripe
	subject, scope string
	counts         []count
	at             int64  // the store's instant of its newest answer,
	heard          int64  // when that came,
	generation     uint32 // and that of the first state then
	touched        uint64 // under which lock it was last needed
	born           int64
	resetAt        int64 // when something of it was last reset
	groups         []group
	debts          []*debt
	named          map[string]*debt // by request id
	owing          bool             // there is something to charge
}

func newLedger(c *Config) (*ledger, error) {
	l := &ledger{
		clock: c.now, start: time.Now(), seed: maphash.MakeSeed(), mark: 1 + rand.Uint64N(1<<markBits-1),
		most: int(max(c.LocalBytes/recordBytes/stripes, 4)),
	}
	if c.now != nil {
		l.start = c.now()
	}
	for i := range l.stripes {
		l.stripes[i].records, l.stripes[i].owing = make(map[uint64]*record), make(map[*record]struct{})
	}
	l.entries.of = make(map[uint64]*debt)
	l.entries.most = int(max(c.LocalBytes/4/recordBytes, 64))
	var err error
	l.bans, err = memorystore.New(memorystore.Config{MaxBytes: max(c.LocalBytes/8, 1), Now: c.now})
	return l, err
}

func (l *ledger) close() {
	l.closed.Store(true)
	_ = l.bans.Close() // it never fails
}

// now is the time since the start, in nanoseconds.
func (l *ledger) now() int64 {
	if l.clock != nil {
		return int64(l.clock().Sub(l.start))
	}
	return int64(time.Since(l.start))
}

// wall is an instant in the store's clock, in microseconds, as far as that is known.
func (l *ledger) wall(now int64) int64 {
	return l.start.UnixMicro() + now/int64(time.Microsecond) + l.ahead.Load()
}

// instant is an instant of the store's clock in ours.
func (l *ledger) instant(wall, now int64) int64 {
	return now - (l.wall(now)-wall)*int64(time.Microsecond)
}

// synchronize learns of the store's clock, from the answer to a call that was sent at a time. It
// was read between the sending and now.
func (l *ledger) synchronize(d *stint.Decision, sent time.Time) {
	read := d.Charge.Data().Now
	if read == 0 {
		return
	}
	now, ahead := l.now(), l.ahead.Load()
	least := read - l.wall(now) + ahead
	most := least + max(time.Since(sent).Microseconds()+1, 0)
	if next := min(max(ahead, least), most); next != ahead {
		l.ahead.CompareAndSwap(ahead, next)
	}
}

// endOf is when the present window of a limit ends that is fixed, by the store's clock.
func (l *ledger) endOf(r *rule, now int64) int64 {
	if r.Algorithm != stint.AlgorithmFixed {
		return 0
	}
	window := r.Window.Microseconds()
	return now + (window-l.wall(now)%window)*int64(time.Microsecond)
}

// identify returns the stripe of a claim, and the key of its record.
func (l *ledger) identify(c *stint.Claim) (s *stripe, key uint64) {
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

// find returns the record of a claim, or nil. The lock is held, as for all that follows.
func (l *ledger) find(c *stint.Claim) *record {
	s, key := l.identify(c)
	return s.records[key]
}

// record returns the record of a claim, a new one if there is none.
func (l *ledger) record(c *stint.Claim, now int64) *record {
	s, key := l.identify(c)
	r := s.records[key]
	if r == nil {
		if len(s.records) >= l.most {
			l.evict(s, now)
		}
		r = &record{stripe: s, born: now, subject: strings.Clone(c.Subject), scope: strings.Clone(c.Scope),
			counts: make([]count, 0, len(c.Limits))}
		s.records[key] = r
	}
	r.touched = s.locked
	return r
}

// evict forgets the record that matters least, of a few: of which the least is used, and if there
// is any, one that owes nothing.
func (l *ledger) evict(s *stripe, now int64) {
	const among = 8
	seen, victim, least := 0, uint64(0), math.Inf(1)
	for key, r := range s.records {
		if r.touched == s.locked { // the request at hand may need it
			continue
		}
		used := r.used(now)
		if r.owing || r.resetAt > 0 && now-r.resetAt < int64(answerTime) {
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
	if r.owing {
		l.dropped.Add(1)
		l.owing.Add(-1)
		delete(s.owing, r)
		r.owing = false
	}
	for _, o := range slices.Clone(r.debts) {
		l.remove(o)
	}
	l.unname(r)
	delete(s.records, victim)
}

// used is the largest part of a limit that is used.
func (r *record) used(now int64) (most float64) {
	for i := range r.counts {
		c := &r.counts[i]
		most = max(most, 1-float64(c.left(now, 0, 1))/float64(max(c.capacity, 1)))
	}
	return most
}

// of returns what is known of a limit, or nil. It is at an index, if nothing has changed.
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

// count returns what is known of a limit, nothing if it is new.
func (l *ledger) count(r *record, limit *stint.Limit, i int) *count {
	c := r.of(limit, i)
	if c == nil {
		r.counts = append(r.counts, count{rule: l.rule(limit), index: len(r.counts)})
		return &r.counts[len(r.counts)-1]
	}
	l.follow(c, limit)
	return c
}

// follow gives a count the Max and Burst of a request.
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

// rule returns the one of a limit, which it does not keep. There are few limits; where two share a
// slot, the later one replaces the other.
func (l *ledger) rule(limit *stint.Limit) *rule {
	h := mix(uint64(limit.Max)^l.mark, oddWindow^uint64(limit.Window))
	h = mix(h^uint64(limit.Burst), oddKind^uint64(limit.Algorithm))
	slot := &l.rules[h%uint64(len(l.rules))]
	if r := slot.Load(); r != nil && r.Limit == *limit {
		return r
	}
	r := newRule(limit)
	r.Name = strings.Clone(limit.Name)
	slot.Store(r)
	return r
}

// answered counts the store's answer to a request, in a call, that came at an instant. If that
// exceeds a limit, since this process was granted something without the store that the answer does
// not count, the decision becomes a denial. Nothing is granted by an answer that comes late: its
// caller is gone.
func (l *ledger) answered(r *stint.Request, d *stint.Decision, call uint64, now int64, late bool) {
	if r.Mode == stint.ModePeek || r.Terms().Lease > 0 || anyLeased(r) {
		return
	}
	if d.Banned && d.BanLeft > 0 && r.Bans != nil && d.Denier > 0 {
		age := time.Duration(max(l.wall(now)-d.Charge.Data().Now, 0)) * time.Microsecond // of the answer
		l.ban(r.Claims[d.Denier-1].Subject, d.BanLeft-min(age, answerTime))
	}
	if d.Repeat || len(d.Usages()) != contract.CountLimits(r) {
		return // there is no usage to learn from
	}
	instances := l.instances()
	set := l.lock(r.Claims)
	defer l.unlock(set)
	charged := d.Allowed && d.Charge.Data().ID != 0
	uncounted := l.hear(r, d, call, late, now, instances)
	switch {
	case !charged || late:
	case r.Terms().Booked != nil && r.Terms().Booked.At == d.Charge.Data().At: // it has been counted
	case uncounted && r.Mode != driver.ModeForce && !l.fits(r, d, call, now, instances):
		l.overrule(r, d, now, instances)
	case r.Terms().Booked != nil:
	case d.RetryAfter > 0:
		l.booked(d, now, instances)
	default:
		l.granted(d, now, instances)
		rec := l.find(&r.Claims[0])
		if n := rec.of(&r.Claims[0].Limits[0], 0); r.ID != "" && n != nil && n.owed != nil { // it may be lost again
			o := &debt{home: rec, id: r.ID, life: contract.Life(r), at: now, state: paidDebt, stored: d.Charge,
				claims: copied(d.Charge.Claims())}
			o.stored.SetClaims(o.claims)
			l.name(o, now)
		}
	}
}

// hear takes over what the store says of the limits of a request, if no newer answer did. It
// reports whether the answer does not count something that this process was granted.
func (l *ledger) hear(r *stint.Request, d *stint.Decision, call uint64, late bool, now, instances int64) (
	uncounted bool) {
	usages, charged, ahead := d.Usages(), d.Allowed && d.Charge.Data().ID != 0, d.Allowed && d.RetryAfter > 0
	k := 0
	for i := range r.Claims {
		c, at := &r.Claims[i], d.Charge.Data().NowOf(i)
		cost := int64(0)
		if charged {
			cost = d.Charge.Claims()[i].Cost
		}
		if o := d.Charge.Data().Others; at == 0 && o != nil && o.Now != nil {
			k += len(c.Limits)
			continue // it was not asked about
		}
		rec := l.find(c)
		if rec == nil {
			if cost == 0 && !anyUsed(usages[k:k+len(c.Limits)]) {
				k += len(c.Limits)
				continue // there is nothing to know
			}
			rec = l.record(c, now)
		}
		rec.touched = rec.stripe.locked
		newer := at >= rec.at || now-rec.heard > int64(time.Second) || i == 0 && d.Charge.Data().Generation != 0 &&
			rec.generation != 0 && d.Charge.Data().Generation != rec.generation
		for j := range c.Limits {
			n := l.count(rec, &c.Limits[j], j)
			n.advance(now)
			more := n.uncounted(at, call, now)
			uncounted = uncounted || more > 0
			part := cost
			if n.Algorithm == stint.AlgorithmConcurrency {
				part = min(cost, 1)
			}
			switch {
			case ahead: // it says what is used then
			case !newer:
				n.ours(part, at)
			default:
				if late || r.Terms().Booked != nil { // it is counted already, or by adopt
					part = 0
				}
				if rec.blind(n, rec.born) && usages[k].Used > part && n.meter != nil {
					n.meter.local = max(n.meter.local, n.weight(more)) // what was refilled was not ours
				}
				n.hear(&usages[k], c.Cost, part, more, at, call, now, instances)
			}
			k++
		}
		if newer && !ahead {
			rec.at, rec.heard = at, now
			if i == 0 && d.Charge.Data().Generation != 0 {
				rec.generation = d.Charge.Data().Generation
			}
		}
	}
	return uncounted
}

// blind reports whether how much of a limit that refills was used before an instant may not be
// known: the store has not been heard of the subject, and a process before this one may have.
func (r *record) blind(n *count, at int64) bool {
	return r.heard == 0 && n.unit > 0 && at < n.after(0, n.weight(n.capacity))
}

// anyUsed reports whether anything is used.
func anyUsed(usages []stint.Usage) bool {
	return slices.ContainsFunc(usages, func(u stint.Usage) bool { return u.Used > 0 })
}

// fits reports whether a charge of the store, now or ahead, is within the limits although the store
// did not count all that this process was granted. Of several processes none knows what the
// others were granted: what the store counted and what it did not must fit together.
func (l *ledger) fits(r *stint.Request, d *stint.Decision, call uint64, now, instances int64) bool {
	k, t := 0, now+int64(d.RetryAfter)
	for i := range r.Claims {
		c := &r.Claims[i]
		rec, at := l.find(c), d.Charge.Data().NowOf(i)
		for j := range c.Limits {
			n, cost := rec.of(&c.Limits[j], j), d.Charge.Claims()[i].Cost
			if n == nil {
				k++
				continue
			}
			if n.Algorithm == stint.AlgorithmConcurrency {
				cost = min(cost, 1)
			}
			more := n.uncounted(at, call, now)
			if instances > 1 && more > 0 && d.Usages()[k].Used+more > n.capacity ||
				instances == 1 && cost > 0 && n.left(t, more, 1) < cost {
				return false
			}
			k++
		}
	}
	return true
}

// overrule denies what the store has charged, and refunds it.
func (l *ledger) overrule(r *stint.Request, d *stint.Decision, now, instances int64) {
	l.later.refund(d.Charge, false)
	denied := stint.Decision{Degraded: true, Charge: contract.ChargeOf(r)}
	fits := l.show(r, &denied, now, instances)
	if l.deny(&denied); fits { // only the store can allow it
		denied.Denier, denied.RetryAfter = 1, outageRetry
		denied.Usages()[0].RetryAfter = outageRetry
	}
	*d = denied
}

// granted counts a charge of the store. One that was counted among what others had used is ours.
func (l *ledger) granted(d *stint.Decision, now, instances int64) {
	claims := d.Charge.Claims()
	for i := range claims {
		c := &claims[i]
		rec := l.find(c)
		if c.Cost == 0 {
			continue
		}
		for j := range c.Limits {
			n := rec.of(&c.Limits[j], j)
			if n == nil {
				continue
			}
			if n.Algorithm == stint.AlgorithmConcurrency {
				n.hold(d.Charge.Data().ID, now, true)
				continue
			}
			n.grant(c.Cost, now, l.endOf(n.rule, now), instances, true)
		}
	}
}

// booked counts a booking among what others have used, until it has left its window.
func (l *ledger) booked(d *stint.Decision, now, instances int64) {
	claims := d.Charge.Claims()
	for i := range claims {
		c := &claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			n := rec.of(&c.Limits[j], j)
			if n == nil || c.Cost == 0 {
				continue
			}
			// Grace and slice are less than a sixteenth of the window together.
			o, gone := &n.others, now+int64(d.RetryAfter+c.Limits[j].Window+c.Limits[j].Window/parts)
			if o.bookedUntil < now {
				o.booked = 0
			}
			o.booked, o.bookedUntil = o.booked+c.Cost, max(o.bookedUntil, gone)
			o.units, o.from, o.until = o.at(now, false)+c.Cost, now, max(o.until, gone)
			n.heard.used, n.heard.until = n.heard.used+c.Cost, max(n.heard.until, o.until)
			n.fill(c.Cost, now, instances, true)
		}
	}
}

// adopt counts a charge of the store whose answer came when its caller had just given up.
func (l *ledger) adopt(r *stint.Request, d *stint.Decision) {
	if d.Charge.Data().ID == 0 || d.Repeat || d.RetryAfter > 0 || !d.Allowed || anyLeased(r) ||
		r.Terms().Lease > 0 || r.Terms().Booked != nil {
		return
	}
	now, instances := l.now(), l.instances()
	set := l.lock(r.Claims)
	defer l.unlock(set)
	uncounted := false
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.record(c, now)
		for j := range c.Limits {
			n := l.count(rec, &c.Limits[j], j)
			uncounted = uncounted || n.uncounted(d.Charge.Data().NowOf(i), 0, now) > 0
			n.ours(c.Cost, d.Charge.Data().NowOf(i))
		}
	}
	if uncounted && r.Mode != driver.ModeForce && !l.fits(r, d, 0, now, instances) {
		l.overrule(r, d, now, instances)
		return
	}
	l.granted(d, now, instances)
}

// returned notes that the store has refunded a charge that nobody was granted, in a call that was
// sent at an instant. If the newest answer came before that, and counted the charge, it is taken
// off: of a late one its own answer did.
func (l *ledger) returned(c *stint.Charge, late bool, sent int64) {
	now, instances := l.now(), l.instances()
	l.each(c.Claims(), func(i int, rec *record, n *count) {
		if at := c.Data().NowOf(i); rec.heard <= sent && (rec.at > at || late && rec.at == at) {
			n.others.units = max(n.others.units-c.Claims()[i].Cost, 0)
			n.drain(c.Claims()[i].Cost, l.instant(c.Data().AtOf(i), now), now, instances, true)
		}
	})
	// An answer from before the refund that is yet to come counts the charge.
	l.each(c.Claims(), func(_ int, rec *record, _ *count) { rec.at = max(rec.at, l.wall(sent)) })
}

// ban notes a ban, for decisions without the store.
func (l *ledger) ban(subject string, d time.Duration) {
	if d = min(d, stint.MaxWindow).Round(time.Microsecond); d >= stint.MinWindow {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
	}
}

// unban forgets a ban: another process has changed something about the subject. If it is still
// banned, the store's next answer says so.
func (l *ledger) unban(subject string) {
	if subject != "" {
		_ = l.bans.Command(context.Background(), stint.Command{Kind: stint.CommandUnban, Subject: subject})
	}
}
