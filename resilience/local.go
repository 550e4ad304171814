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
	owing   atomic.Int64  // records with something to charge
	next    atomic.Uint32 // the stripe to collect that from
	step    atomic.Uint64 // how often the store was charged with what was granted without it
	resets  atomic.Uint64 // how many there were
	twins   twins
	recents recents
	mark    uint64 // of this process
	// settle and command act on the store, in the background.
	settle  func(*stint.Charge, settlement)
	command func(stint.Command)
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
	records map[uint64]*record // by subject and scope
	_       [48]byte           // the next lock is on another cache line
}

// record is what is known of a subject in a scope beside its counts. There is one if others
// have used something of its limits, or if something was granted without the store.
type record struct {
	subject, scope string
	limits         []*known
	sent           []*sending // what is on its way to be charged
	owing          bool       // there is something to charge
	resetAt        int64      // when something of it was last reset
	at             int64      // the store's instant of the last answer,
	heard          int64      // and when it came
}

// known is what is known of one limit.
type known struct {
	limit    stint.Limit
	others   others
	answered bool   // the store has answered since the last local decision
	reset    uint64 // the number of its last reset

	// uncharged units were granted without the store, and it is not known that it counts
	// them: the answer is late, or they are owed. Grants are those that are owed and not on
	// their way.
	uncharged   int64
	unchargedAt int64 // when the last of them was granted
	grants      []grant
	recent      []recent

	// places were given without the store, which does not know of them yet: their holders'
	// heartbeats tell it.
	places   int64
	placesAt int64
}

// recent is units that were uncharged until a step: an answer to a request that was made
// before that step may not count them, unless the request itself had them charged.
type recent struct {
	step      uint64
	at, units int64
	by        *sending
}

// of returns what is known of a limit, or nil.
func (r *record) of(l *stint.Limit) *known {
	if r == nil {
		return nil
	}
	for _, k := range r.limits {
		if k.limit.SameID(l) {
			return k
		}
	}
	return nil
}

// limit returns what is known of a limit, nothing if it is new.
func (r *record) limit(l *stint.Limit) *known {
	k := r.of(l)
	if k == nil {
		k = &known{limit: *l}
		k.limit.Name = strings.Clone(l.Name)
		r.limits = append(r.limits, k)
	}
	k.limit.Max, k.limit.Burst = l.Max, l.Burst
	return k
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

// needed reports that a record must not be forgotten: something of it is not charged, or was
// reset a moment ago.
func (r *record) needed(now int64) bool {
	if r.owing || r.resetAt > 0 && now-r.resetAt < int64(recentTime) {
		return true
	}
	for _, k := range r.limits {
		if k.uncharged > 0 && now-k.unchargedAt < int64(counts(&k.limit)) || k.placesNow(now) > 0 {
			return true
		}
	}
	return false
}

// most is the largest part of a limit that others have used.
func (r *record) most(now int64) (most float64) {
	for _, k := range r.limits {
		most = max(most, float64(k.others.left(now))/float64(max(k.limit.Capacity(), 1)))
	}
	return most
}

// placesNow is how many places the store may not know of. Of a holder that has not been heard of
// for as long as a place lasts there is none.
func (k *known) placesNow(now int64) int64 {
	if now-k.placesAt > int64(k.limit.Window) {
		k.places = 0
	}
	return k.places
}

// question says when a request was made, and what was charged before it in the same call.
type question struct {
	asked   uint64 // steps before it
	carried []*owedCall
}

// unchargedFor is how many units may count in a limit that the answer to a question does not
// count.
func (k *known) unchargedFor(q *question, now int64) int64 {
	if k.limit.Algorithm == stint.Concurrency {
		return k.placesNow(now)
	}
	n := int64(0)
	if now-k.unchargedAt <= int64(counts(&k.limit)) {
		n = k.uncharged
	}
	for _, r := range k.recent {
		if r.step > q.asked && now-r.at < int64(recentTime) && !q.carries(r.by) {
			n += r.units
		}
	}
	return n
}

func (q *question) carries(s *sending) bool {
	return s != nil && slices.ContainsFunc(q.carried, func(o *owedCall) bool { return o.sending == s })
}

const (
	// recentTime is longer than anybody waits for an answer, and maxRecent how many steps are
	// remembered.
	recentTime = 10 * time.Second
	maxRecent  = 8
)

// grant counts units as uncharged. Those before them may have expired.
func (k *known) grant(units, now, at int64) {
	if now-k.unchargedAt > int64(counts(&k.limit)) {
		k.uncharged = 0
	}
	k.uncharged += units
	k.unchargedAt = max(k.unchargedAt, at)
}

// charged notes that the store counts units, from a step on.
func (k *known) charged(units, now int64, step uint64, by *sending) {
	if units = min(units, k.uncharged); units == 0 {
		return
	}
	k.uncharged -= units
	if len(k.recent) == maxRecent {
		k.recent = slices.Delete(k.recent, 0, 1)
	}
	k.recent = append(k.recent, recent{step, now, units, by})
}

// counts is how long a unit may count in a limit. Of one that refills it is not known: what was
// used before may take up all that has been refilled. So it is some times what it takes to
// refill all of it.
func counts(l *stint.Limit) time.Duration {
	if l.Algorithm == stint.Bucket || l.HasMeter() {
		return refills * l.Window * time.Duration(max(ceilDiv(l.Capacity(), max(l.Max, 1)), 1))
	}
	return l.Window
}

const refills = 4

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

// evict forgets the one of some records of which others have used the least. Of its subject
// the process then knows what it was granted itself.
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

// heard counts what the store answered to a question. If the answer allows what this process
// must not, since it was granted something without the store that the answer does not count, it
// reports false, and after how long to try again.
func (l *local) heard(r *stint.Request, d *stint.Decision, q *question, now, instances int64) (ok bool, retry time.Duration) {
	if r.Mode == stint.Peek || r.Lease > 0 || anyLeased(r) {
		return true, 0
	}
	if d.Banned && d.RetryAfter > 0 && r.Bans != nil {
		l.ban(r.ClaimAt(int(d.Decider)).Subject, d.RetryAfter)
	}
	usages := d.Usages()
	if d.Repeat || len(usages) != limitsOf(r) {
		return true, 0 // the store did not say
	}
	set := l.lock(&r.Claim, r.And)
	defer l.unlock(set)
	charged, known := d.Allowed && d.Charge.ID != 0, l.any(set)
	if known && charged && r.Mode != stint.Force && r.Booked == 0 {
		if ok, retry := l.sure(r, d, q, now, instances); !ok {
			return false, retry
		}
	}
	var own stint.Decision
	var err error
	switch {
	case !charged:
		own, err = l.own.Take(context.Background(), stint.Request{Claim: r.Claim, And: r.And, Mode: stint.Peek})
	case r.Booked != 0 && d.Charge.At == r.Booked:
		return true, 0 // it stays where it is
	default:
		count := stint.Request{Claim: d.Charge.Claim, And: d.Charge.And(), Mode: stint.Force, MaxWait: d.RetryAfter}
		if known && r.ID != "" { // a local decision may have counted it
			count.ID, count.IDLife = r.ID, r.IDLife
		}
		if own, err = l.own.Take(context.Background(), count); err == nil && !own.Repeat {
			l.twin(r, d, &own.Charge)
		}
	}
	if err != nil || d.RetryAfter > 0 && charged {
		return true, 0 // closed, or as of a later instant
	}
	mine := own.Usages()
	if !known && !othersUsed(usages, mine) {
		return true, 0
	}
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		l.note(c, usages[:len(c.Limits)], mine[:len(c.Limits)], d.Charge.At, d.Charge.ClaimAt(i).Cost, q, now)
		usages, mine = usages[len(c.Limits):], mine[len(c.Limits):]
	}
	return true, 0
}

// sure reports whether a charge that the store made is within the limits although the store
// did not count what is uncharged. Then own has the last word: other answers may be older
// than this one and yet to come. Of several processes none knows what the others were granted;
// what the store counted and what is uncharged must fit together.
func (l *local) sure(r *stint.Request, d *stint.Decision, q *question, now, instances int64) (ok bool, retry time.Duration) {
	usages := d.Usages()
	n, sure, together := 0, true, true
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		rec := l.find(c)
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil {
				if more := k.unchargedFor(q, now); more > 0 {
					sure = false
					together = together && usages[n].Used+more <= c.Limits[j].Capacity()
				}
			}
			n++
		}
	}
	switch {
	case sure:
		return true, 0
	case instances > 1 && !together:
		return false, max(outageRetry, d.RetryAfter)
	}
	own, err := l.own.Take(context.Background(), stint.Request{Claim: d.Charge.Claim, And: d.Charge.And(), Mode: stint.Peek})
	switch {
	case err != nil:
		return true, 0
	case own.RetryAfter == stint.Never || own.RetryAfter > d.RetryAfter:
		return false, own.RetryAfter
	case !together && d.RetryAfter == 0 && !l.fits(&d.Charge, &own, now):
		return false, outageRetry
	}
	return true, 0
}

// fits reports whether there is room for a charge, beside what others have used, given
// what this process has.
func (l *local) fits(charge *stint.Charge, own *stint.Decision, now int64) bool {
	usages := own.Usages()
	n := 0
	for i := range 1 + len(charge.And()) {
		c := charge.ClaimAt(i)
		rec := l.find(c)
		for j := range c.Limits {
			if o := rec.othersOf(&c.Limits[j], now); o > 0 && usages[n].Used+o+c.Cost > c.Limits[j].Capacity() {
				return false
			}
			n++
		}
	}
	return true
}

// note remembers what others have used of a claim's limits: what the store said, less what
// it counts of this process. Answers may come out of order: what an older one granted is in
// the newer one already.
func (l *local) note(c *stint.Claim, said, mine []stint.Usage, at, cost int64, q *question, now int64) {
	rec := l.find(c)
	if rec == nil {
		if !othersUsed(said, mine) {
			return
		}
		rec = l.record(c, now)
	}
	older := at > 0 && at < rec.at && now-rec.heard < int64(time.Second)
	for j := range said {
		k := rec.limit(&c.Limits[j])
		k.answered = true
		o := &k.others
		if older {
			o.units = max(o.units-cost, 0)
			continue
		}
		units := said[j].Used - max(mine[j].Used-k.unchargedFor(q, now), 0)
		if at > 0 && at == rec.at { // in one call: the larger is the later one
			units = max(units, o.units-cost)
		}
		*o = others{units: max(units, 0), from: now, until: now + int64(min(said[j].ResetAfter, maxAhead)),
			steady: k.limit.Algorithm == stint.Fixed || k.limit.Algorithm == stint.Concurrency}
	}
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
	if err != nil || !d.Allowed || d.Charge.ID == 0 || d.Repeat {
		return d, err
	}
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		if c.Cost == 0 {
			continue
		}
		rec := l.record(c, now)
		for j := range c.Limits {
			k := rec.limit(&c.Limits[j])
			if k.limit.Algorithm == stint.Concurrency {
				k.places = k.placesNow(now) + 1
				k.placesAt = now
			} else {
				k.grant(c.Cost, now, now+int64(d.RetryAfter))
			}
		}
	}
	return d, nil
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
			if err == nil && d.Charge.ID != 0 {
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
		if rec := l.find(r.ClaimAt(i)); rec != nil && rec.most(now) > 0 {
			return true
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
			used, o := usages[k].Used, rec.othersOf(&c.Limits[j], now)
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

// othersOf is what others have used of a limit.
func (r *record) othersOf(l *stint.Limit, now int64) int64 {
	if k := r.of(l); k != nil {
		return k.others.left(now)
	}
	return 0
}

// taken fills in what this process has taken of a claim's limits since the store last answered.
func (l *local) taken(c *stint.Claim, rec *record, instances int64, taken *units) {
	clear(taken[:len(c.Limits)])
	if instances == 1 {
		return
	}
	ctx := context.Background()
	if rec.answeredSince(c.Limits) {
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

// answeredSince reports whether the store has answered about one of the limits since this was
// last asked.
func (r *record) answeredSince(limits []stint.Limit) (answered bool) {
	for j := range limits {
		if k := r.of(&limits[j]); k != nil && k.answered {
			answered, k.answered = true, false
		}
	}
	return answered
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
			for j := range c.Limits {
				if k := rec.of(&c.Limits[j]); k != nil {
					wait = max(wait, k.others.whenAtMost(now, c.Limits[j].Capacity()-c.Cost))
				}
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

// whenAtMost is how long it takes until others use no more than so many units.
func (o *others) whenAtMost(now, room int64) time.Duration {
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

// anyPlace reports whether claims take a place under a concurrency limit.
func anyPlace(first *stint.Claim, and []stint.Claim) bool {
	if hasPlace(first) {
		return true
	}
	for i := range and {
		if hasPlace(&and[i]) {
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
