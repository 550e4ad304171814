package resilience

import (
	"context"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// local decides for a process that cannot ask the store. It knows what the process was
// granted, by the store and without it, and what the store last said that others had used.
//
// own counts every unit that was granted to this process, as long as it counts. A unit that
// the store granted counts from the arrival of the answer, which is later than the store has it.
//
// A process that has the store for itself decides by own alone: the limits are the same with
// the store and without. Of several processes each takes its part of what is left; since
// counts what this process took of that since the store last answered about the subject.
type local struct {
	seed    maphash.Seed
	own     *memorystore.Store
	since   *memorystore.Store
	parts   divisions
	stripes [stripes]stripe
	most    int           // records in a stripe
	owing   atomic.Int64  // records with a debt, and requests to send again
	step    atomic.Uint64 // how often the store was charged with what was granted without it
	twins   twins
	recents recents
	named   named
	mark    uint64 // of this process
}

// The ids of a memory store leave their highest bits free. There stands the mark of
// the process: the charge of another one must not be taken for one of ours.
const (
	markBits  = 12
	markShift = 64 - markBits
)

func (l *local) marked(id uint64) uint64 { return id | l.mark<<markShift }

// stripes is among how many locks subjects are divided.
const stripes = 256

// stripe holds the records of some subjects, and the lock under which decisions on them are
// made locally, and answers of the store about them are counted.
type stripe struct {
	mu      sync.Mutex
	records map[uint64]*record // by identity of a claim
	owing   int                // those with a debt
	_       [40]byte           // the next lock is on another cache line
}

// record is what is known of a claim beside its counts. There is one if others have used
// something of its limits, or if the store has to be charged.
type record struct {
	others   []others // by limit
	at       int64    // the store's instant of the answer that says so
	heard    int64    // when it came
	answered bool     // the store has answered since the last local decision

	// uncharged units were granted without the store, and it is not known that it counts
	// them: the answer is late, or they are owed.
	uncharged   int64
	unchargedAt int64 // when the last of them was granted
	resets      uint32

	// Recent units were uncharged until the step below: an answer to a request that was made
	// before that step may not count them.
	recent     int64
	recentAt   int64
	recentStep uint64

	// places were given without the store, which does not know of them yet: their holders'
	// heartbeats tell it.
	places   int64
	placesAt int64
	debt     *debt // what is owed; nil if nothing is
}

// others is what other processes have used of a limit.
type others struct {
	units       int64
	from, until int64
	steady      bool // it goes all at once, at the end
}

// left is how much of it counts now. When its units leave their window is not known, only
// when the last of them does: it is taken to have been used evenly.
func (o *others) left(now int64) int64 {
	if o.units == 0 || now >= o.until {
		return 0
	}
	if o.steady || now <= o.from {
		return o.units
	}
	high, low := bits.Mul64(uint64(o.units), uint64(o.until-now))
	quotient, rest := bits.Div64(high, low, uint64(o.until-o.from))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// idle reports that a record says nothing any more.
func (r *record) idle(now int64) bool {
	if r.uncharged > 0 || r.debt != nil || r.places > 0 {
		return false
	}
	for i := range r.others {
		if r.others[i].left(now) > 0 {
			return false
		}
	}
	return true
}

// unchargedOf is how many units may count in a limit that an answer to a request made after
// some step does not count.
func (r *record) unchargedOf(l *stint.Limit, now int64, asked uint64) int64 {
	if r == nil || r.uncharged == 0 && r.recent == 0 && r.places == 0 {
		return 0
	}
	if l.Algorithm == stint.Concurrency {
		if now-r.placesAt > int64(l.Window) {
			return 0
		}
		return r.places
	}
	if life := counts(l); now-r.unchargedAt > int64(life) {
		return 0
	}
	if asked < r.recentStep && now-r.recentAt < int64(recentTime) {
		return r.uncharged + r.recent
	}
	return r.uncharged
}

// recentTime is longer than anybody waits for an answer.
const recentTime = 10 * time.Second

// charged notes that the store counts units of a record. The lock is held.
func (l *local) charged(r *record, units, now int64) {
	if now-r.recentAt >= int64(recentTime) {
		r.recent = 0
	}
	units = min(units, r.uncharged)
	r.uncharged -= units
	r.recent += units
	r.recentAt, r.recentStep = now, l.step.Add(1)
}

// counts is how long a unit counts in a limit at most.
func counts(l *stint.Limit) time.Duration {
	if l.Algorithm == stint.Bucket || l.HasMeter() {
		return l.Window * time.Duration(max(ceilDiv(l.Capacity(), max(l.Max, 1)), 1))
	}
	return l.Window
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
	for i := range l.twins {
		l.twins[i].most = int(max(bytes/16/recordBytes/int64(len(l.twins)), 4))
	}
	l.recents.slots = make([]recentCharge, 1<<bits.Len64(uint64(max(bytes/16/64, 64)-1)))
	for i := range l.stripes {
		l.stripes[i].records = make(map[uint64]*record)
	}
	return l, nil
}

func (l *local) close() {
	_ = l.own.Close() // they never fail
	_ = l.since.Close()
}

// identify returns the hash of a claim's subject, and that of whose state it names: the
// subject, its scope, and the identities of its limits.
func (l *local) identify(c *stint.Claim) (subject, key uint64) {
	subject = maphash.String(l.seed, c.Subject)
	key = mix(subject, oddSubject^uint64(len(c.Limits)))
	if c.Scope != "" {
		key = mix(key^maphash.String(l.seed, c.Scope), oddScope)
	}
	for i := range c.Limits {
		limit := &c.Limits[i]
		key = mix(key^uint64(limit.Algorithm), oddWindow^uint64(limit.Window))
		if limit.Name != "" {
			key = mix(key^maphash.String(l.seed, limit.Name), oddName)
		}
	}
	return subject, key
}

// locked is a set of stripes, a bit each.
type locked [stripes / 64]uint64

// lock takes the locks of all claims, in order.
func (l *local) lock(first *stint.Claim, and []stint.Claim) (set locked) {
	set.add(maphash.String(l.seed, first.Subject))
	for i := range and {
		set.add(maphash.String(l.seed, and[i].Subject))
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
	subject, key := l.identify(c)
	return l.stripes[subject%stripes].records[key]
}

// record returns the record of a claim, a new one if there is none.
func (l *local) record(c *stint.Claim, now int64) *record {
	subject, key := l.identify(c)
	s := &l.stripes[subject%stripes]
	r := s.records[key]
	if r == nil {
		if len(s.records) >= l.most {
			s.evict(now)
		}
		r = &record{others: make([]others, len(c.Limits))}
		s.records[key] = r
	}
	return r
}

// evict forgets a record that says nothing any more, else one of some that have nothing to
// be charged: of its subject the process then knows what it was granted itself.
func (s *stripe) evict(now int64) {
	const among = 8
	seen, victim := 0, uint64(0)
	for key, r := range s.records {
		if r.uncharged > 0 || r.debt != nil || r.places > 0 && now-r.placesAt < int64(time.Hour) {
			continue
		}
		if victim = key; r.idle(now) {
			break
		}
		if seen++; seen == among {
			break
		}
	}
	delete(s.records, victim)
}

// heard counts what the store answered to a request that was made after a step. It reports
// false if the answer allows what this process must not, since it was granted something
// without the store that the answer does not count.
func (l *local) heard(r *stint.Request, d *stint.Decision, asked uint64, now, instances int64) bool {
	if r.Mode == stint.Peek || d.Repeat || r.Lease > 0 || anyLeased(r) {
		return true
	}
	if d.Banned && d.RetryAfter > 0 && r.Bans != nil {
		l.ban(r.ClaimAt(int(d.Decider)).Subject, d.RetryAfter)
	}
	usages := d.Usages()
	if n := limitsOf(r); len(usages) != n {
		return true // the store did not say
	}
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	charged, known := d.Allowed && d.Charge.ID != 0, l.any(set)
	if known && charged && d.RetryAfter == 0 && r.Mode != stint.Force && !l.sure(r, d, asked, now, instances) {
		return false
	}
	var own stint.Decision
	var err error
	switch {
	case !charged:
		own, err = l.own.Take(context.Background(), stint.Request{Claim: r.Claim, And: r.And, Mode: stint.Peek})
	case r.Booked != 0 && d.Charge.At == r.Booked:
		return true // it stays where it is
	default:
		own, err = l.own.Take(context.Background(), stint.Request{
			Claim: d.Charge.Claim, And: d.Charge.And(), Mode: stint.Force, MaxWait: d.RetryAfter})
		l.twin(r, d, &own.Charge)
	}
	if err != nil || d.RetryAfter > 0 && charged {
		return true // closed, or as of a later instant
	}
	mine := own.Usages()
	if !known && !othersUsed(usages, mine) {
		return true
	}
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		l.note(c, usages[:len(c.Limits)], mine[:len(c.Limits)], d.Charge.At, d.Charge.ClaimAt(i).Cost, asked, now)
		usages, mine = usages[len(c.Limits):], mine[len(c.Limits):]
	}
	return true
}

// sure reports whether a charge that the store made is within the limits although the store
// did not count what is uncharged. Then own has the last word: other answers may be older
// than this one and yet to come. Of several processes none knows what the others were granted;
// what the store counted and what is uncharged must fit together.
func (l *local) sure(r *stint.Request, d *stint.Decision, asked uint64, now, instances int64) bool {
	usages := d.Usages()
	k, sure := 0, true
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		rec := l.find(c)
		for j := range c.Limits {
			if n := rec.unchargedOf(&c.Limits[j], now, asked); n > 0 {
				sure = false
				if instances > 1 && usages[k].Used+n > c.Limits[j].Capacity() {
					return false
				}
			}
			k++
		}
	}
	if sure {
		return true
	}
	own, err := l.own.Take(context.Background(), stint.Request{Claim: d.Charge.Claim, And: d.Charge.And(), Mode: stint.Peek})
	return err == nil && own.Allowed && l.fits(r, &own, now)
}

// fits reports whether there is room for a request, beside what others have used, given
// what this process has.
func (l *local) fits(r *stint.Request, own *stint.Decision, now int64) bool {
	usages := own.Usages()
	k := 0
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		if rec := l.find(c); rec != nil {
			for j := range c.Limits {
				if o := rec.others[j].left(now); o > 0 && usages[k+j].Used+o+c.Cost > c.Limits[j].Capacity() {
					return false
				}
			}
		}
		k += len(c.Limits)
	}
	return true
}

// note remembers what others have used of a claim's limits: what the store said, less what
// it counts of this process. Answers may come out of order: what an older one granted is in
// the newer one already.
func (l *local) note(c *stint.Claim, said, mine []stint.Usage, at, cost int64, asked uint64, now int64) {
	rec := l.find(c)
	if rec == nil {
		if !othersUsed(said, mine) {
			return
		}
		rec = l.record(c, now)
	}
	older := at > 0 && at < rec.at && now-rec.heard < int64(time.Second)
	for k := range said {
		o := &rec.others[k]
		if older {
			o.units = max(o.units-cost, 0)
			continue
		}
		limit := &c.Limits[k]
		units := said[k].Used - max(mine[k].Used-rec.unchargedOf(limit, now, asked), 0)
		if at > 0 && at == rec.at { // in one call: the larger is the later one
			units = max(units, o.units-cost)
		}
		*o = others{units: max(units, 0), from: now, until: now + int64(min(said[k].ResetAfter, maxAhead)),
			steady: limit.Algorithm == stint.Fixed || limit.Algorithm == stint.Concurrency}
	}
	rec.answered = true
	if !older {
		rec.at, rec.heard = max(at, 0), now
	}
}

// othersUsed reports whether the store said that more is used than by this process.
func othersUsed(said, mine []stint.Usage) bool {
	for k := range said {
		if said[k].Used > mine[k].Used {
			return true
		}
	}
	return false
}

// maxAhead is the longest that anything counts.
const maxAhead = stint.MaxWindow * stint.MaxBurst

// ban tells own of a ban, for decisions that are made without the store.
func (l *local) ban(subject string, d time.Duration) {
	if d = min(d, stint.MaxBan).Round(time.Microsecond); d >= stint.MinWindow {
		_ = l.own.Command(context.Background(), stint.Command{Kind: stint.Ban, Subject: subject, For: d})
	}
}

// unban forgets a ban: another process has changed something about the subject. If it is banned
// the store's next answer says so.
func (l *local) unban(subject string) {
	if subject != "" {
		_ = l.own.Command(context.Background(), stint.Command{Kind: stint.Unban, Subject: subject})
	}
}

// decide decides a request without the store.
func (l *local) decide(r *stint.Request, now, instances int64) (stint.Decision, error) {
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	var d stint.Decision
	var err error
	switch {
	case r.Mode == stint.Reserve:
		d, err = l.reserve(r, now, instances)
	case r.Mode == stint.Force:
		d, err = l.own.Take(context.Background(), *r)
	default:
		d, err = l.take(r, now, instances)
	}
	if err == nil && d.Allowed && d.Charge.ID != 0 && !d.Repeat {
		for i := range 1 + len(r.And) {
			if c := r.ClaimAt(i); c.Cost > 0 {
				rec := l.record(c, now)
				rec.uncharged += c.Cost
				rec.unchargedAt = now
				if hasPlace(c) {
					rec.places++
					rec.placesAt = now
				}
			}
		}
	}
	return d, err
}

// take decides a Take or a Peek.
func (l *local) take(r *stint.Request, now, instances int64) (stint.Decision, error) {
	ctx := context.Background()
	if instances == 1 && !l.othersLeft(r, now) {
		return l.own.Take(ctx, *r)
	}
	look := *r
	look.Mode = stint.Peek
	peek, err := l.own.Take(ctx, look)
	if err != nil {
		return peek, err
	}
	var left units
	ok := l.left(r, &peek, now, instances, &left)
	if !peek.Allowed || peek.Repeat || ok && instances == 1 {
		d, err := l.own.Take(ctx, *r)
		l.tell(r, &d, &left)
		return d, err
	}
	if ok && r.Mode != stint.Peek {
		// The part of a limit that refills has a rate of its own.
		var part stint.Decision
		if part, err = l.since.Take(ctx, l.divide(r, instances)); err != nil {
			return part, err
		}
		if part.Allowed {
			d, err := l.own.Take(ctx, *r)
			if err == nil && anyPlace(r) {
				l.twins.add(l.marked(d.Charge.ID), twin{since: part.Charge})
			}
			l.tell(r, &d, &left)
			return d, err
		}
		for k, u := range part.Usages() {
			if u.RetryAfter != 0 {
				left[k] = 0
			}
		}
	}
	if ok && r.Mode == stint.Peek {
		l.tell(r, &peek, &left)
		return peek, nil
	}
	d := stint.Decision{Charge: stint.ChargeOf(r), RetryAfter: outageRetry}
	copy(d.Grow(len(peek.Usages())), peek.Usages())
	l.tell(r, &d, &left)
	k := 0
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		for range c.Limits {
			if left[k] < c.Cost {
				d.Usages()[k].RetryAfter = outageRetry
			}
			k++
		}
	}
	return d, nil
}

// othersLeft reports whether others are known to have used something of a request's limits.
func (l *local) othersLeft(r *stint.Request, now int64) bool {
	for i := range 1 + len(r.And) {
		if rec := l.find(r.ClaimAt(i)); rec != nil {
			for k := range rec.others {
				if rec.others[k].left(now) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// units are those of each limit of a request.
type units [stint.MaxTotal]int64

// left fills in how many units this process may take of each limit, and reports whether all
// of them have room for the request. Given is what the process has of them.
func (l *local) left(r *stint.Request, own *stint.Decision, now, instances int64, left *units) (ok bool) {
	usages := own.Usages()
	ok = true
	k := 0
	var since units
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		rec := l.find(c)
		l.taken(c, rec, instances, &since)
		for j := range c.Limits {
			used, o := usages[k].Used, int64(0)
			if rec != nil {
				o = rec.others[j].left(now)
			}
			all := c.Limits[j].Capacity()
			if instances == 1 {
				left[k] = all - used - o
			} else {
				left[k] = ceilDiv(all-max(used-since[j], 0)-o, instances) - since[j]
			}
			left[k] = max(left[k], 0)
			ok = ok && left[k] >= c.Cost
			k++
		}
	}
	return ok
}

// taken fills in what this process has taken of a claim's limits since the store last answered.
func (l *local) taken(c *stint.Claim, rec *record, instances int64, taken *units) {
	clear(taken[:len(c.Limits)])
	if instances == 1 {
		return
	}
	ctx := context.Background()
	if rec != nil && rec.answered {
		rec.answered = false
		_ = l.since.Command(ctx, stint.Command{Kind: stint.Reset, Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
		return
	}
	part := l.parts.of(c.Limits, instances)
	d, err := l.since.Take(ctx, stint.Request{Claim: stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: part.parts}, Mode: stint.Peek})
	if err == nil {
		for k, u := range d.Usages() {
			taken[k] = u.Used
		}
	}
}

// divide returns a request for this process's part of the limits. Bans and request ids are
// a matter of own.
func (l *local) divide(r *stint.Request, instances int64) stint.Request {
	part := stint.Request{Claim: r.Claim, Mode: r.Mode, MaxWait: r.MaxWait}
	part.Limits = l.parts.of(r.Limits, instances).parts
	if len(r.And) > 0 {
		part.And = make([]stint.Claim, len(r.And))
		for i := range r.And {
			part.And[i] = r.And[i]
			part.And[i].Limits = l.parts.of(r.And[i].Limits, instances).parts
		}
	}
	return part
}

// reserve decides a Reserve: at once if there is room, else by the part of this process,
// and not before others are taken to have given up theirs.
func (l *local) reserve(r *stint.Request, now, instances int64) (stint.Decision, error) {
	ctx := context.Background()
	ask := *r
	ask.Booked = 0
	if instances > 1 {
		var taken units
		for i := range 1 + len(r.And) { // forgets what was taken before the store last answered
			l.taken(r.ClaimAt(i), l.find(r.ClaimAt(i)), instances, &taken)
		}
	}
	d, err := l.own.Take(ctx, ask)
	if err != nil || !d.Allowed || d.Repeat || d.Charge.ID == 0 {
		return d, err
	}
	wait := d.RetryAfter
	if instances > 1 {
		part, err := l.since.Take(ctx, l.divide(&ask, instances))
		if err == nil && part.Allowed && l.overShare(r, &part, instances) {
			_, _ = l.since.Amend(ctx, part.Charge, stint.Amendment{Kind: stint.Settle})
			part.Allowed = false
		}
		if err != nil || !part.Allowed {
			_, _ = l.own.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.Settle})
			d.Allowed, d.Charge = false, stint.ChargeOf(r)
			d.RetryAfter = max(d.RetryAfter, part.RetryAfter, outageRetry)
			return d, err
		}
		wait = max(wait, part.RetryAfter)
	}
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		if rec := l.find(c); rec != nil {
			for k := range c.Limits {
				wait = max(wait, rec.others[k].until0(now, c.Limits[k].Capacity()-c.Cost))
			}
		}
	}
	if wait == d.RetryAfter {
		return d, nil
	}
	_, _ = l.own.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.Settle})
	if wait > r.Longest() {
		d.Allowed, d.RetryAfter, d.Charge = false, wait, stint.ChargeOf(r)
		return d, nil
	}
	wait = wait.Round(time.Microsecond)
	return l.own.Take(ctx, stint.Request{Claim: r.Claim, And: r.And, Mode: stint.Force, MaxWait: wait})
}

// overShare reports whether what counts as the process's part is more than that, as it may be
// of a burst, whose parts are rounded up before they are multiplied.
func (l *local) overShare(r *stint.Request, part *stint.Decision, instances int64) bool {
	k := 0
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		for j := range c.Limits {
			if part.Usages()[k].Used > ceilDiv(c.Limits[j].Capacity(), instances) {
				return true
			}
			k++
		}
	}
	return false
}

// until0 is how long it takes until others use no more than so many units.
func (o *others) until0(now, room int64) time.Duration {
	left := o.left(now)
	switch {
	case left <= room:
		return 0
	case o.steady || room <= 0:
		return time.Duration(o.until - now)
	}
	// The line reaches room at the instant at which left is room.
	high, low := bits.Mul64(uint64(o.until-o.from), uint64(room))
	ahead, _ := bits.Div64(high, low, uint64(o.units))
	return max(time.Duration(o.until-int64(ahead)-now), 0)
}

// tell tells usages in terms of what this process has left.
func (l *local) tell(r *stint.Request, d *stint.Decision, left *units) {
	usages := d.Usages()
	if len(usages) != limitsOf(r) {
		return
	}
	k := 0
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		for j := range c.Limits {
			rest := left[k]
			if d.Allowed && !d.Repeat && r.Mode != stint.Peek {
				rest = max(rest-c.Cost, 0)
			}
			usages[k].Used = max(usages[k].Used, c.Limits[j].Capacity()-rest)
			k++
		}
	}
}

// limitsOf is the number of limits in all claims of a request.
func limitsOf(r *stint.Request) int {
	n := len(r.Limits)
	for i := range r.And {
		n += len(r.And[i].Limits)
	}
	return n
}

// anyPlace reports whether a request takes a place under a concurrency limit.
func anyPlace(r *stint.Request) bool {
	for i := range 1 + len(r.And) {
		if hasPlace(r.ClaimAt(i)) {
			return true
		}
	}
	return false
}

func hasPlace(c *stint.Claim) bool {
	for k := range c.Limits {
		if c.Limits[k].Algorithm == stint.Concurrency {
			return c.Cost > 0
		}
	}
	return false
}

// keepClaim returns a copy of a claim that may be kept.
func (l *local) keepClaim(c *stint.Claim) stint.Claim {
	kept := *c
	kept.Subject, kept.Scope = strings.Clone(c.Subject), strings.Clone(c.Scope)
	kept.Limits = l.parts.of(c.Limits, 1).whole
	return kept
}
