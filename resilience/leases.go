package resilience

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/settled"
)

// leases takes units of limits that are [stint.Limit.Leased] in blocks, ahead of
// need, from the store it wraps, and serves them from memory. What cannot be served from a block
// goes to the store as it is, and so does every request but a plain Take, without an ID, of one
// subject, whose limits are all leased. The store knows of every unit that was leased, so its own
// answers stay exact.
//
// A subject is leased when two of its requests had to go to the store within the length of a lease:
// a twentieth of its shortest window, or longer if the store is far away. From then on blocks are
// renewed in the background, as large as the demand. What a block has left at its end is given
// back.
//
// # Never over
//
// The store stamps the units of a block at its own now + d, where d is the length of the lease, and
// counts them from now until a window after the stamp. They are served only before the time of
// sending + d. The store read its clock after the sending, so whenever a unit is served, its stamp
// is still to come: it counts from before its use until more than a window after it. So what is
// used in any window was counted, all of it at once, at some instant, and the store never lets that
// be more than the limit.
//
// The end of a block is measured by the wall clock and by the monotonic one, whichever comes first:
// while a machine is suspended the monotonic clock may stand still, and the wall clock may be set
// back. A thousandth of d is kept for clocks that run slow. (A virtual machine that is paused, with
// both of its clocks, may serve what it held when it goes on.)
//
// The refill of a burst is not as strict: its meter counts a block when that is taken, so it may be
// ahead by what it refills during d, and by what it had refilled of units that are returned. It
// still admits a capacity in any window at most, and Max per window in the long run.
//
// # The price
//
// Units count for d longer than they would otherwise: a limit that is always full admits some 5 %
// less. A process that dies takes what it holds along, for d plus a window. One that cannot reach
// the store serves what it has, for d at most; then the store within answers.
//
// A ban or a reset made elsewhere takes effect when the blocks in this process end: after d at
// most, or at once if it is announced; see drop. Those made through leases take effect at once. A
// limit with another Max or Burst is another lease.
//
// The usage that a decision from memory reports is that of the latest block, less what this process
// has unspent: what others have used since is not known.
//
// A refund or settlement of a decision from memory applies in the process that made it: to its
// block while that lives, and then to what the store has of the block. Its charge says so.
//
// It is safe for concurrent use. Serving takes no locks and allocates nothing.
type leases struct {
	store   leaseStore
	log     *slog.Logger
	seed    maphash.Seed
	start   time.Time
	clock   func() leaseTime // for tests; nil means the machine's
	mark    uint64           // of this process, in the ids of charges: see markShift
	settled settled.Set      // charges that were settled in their blocks

	table     leaseTable
	misses    leaseSketch
	roundTrip atomic.Int64 // how long renewals take, in nanoseconds, smoothed; 0 if not known
	warned    atomic.Int64 // when a failure was last logged, monotonic

	renewing, returning atomic.Int32 // how many jobs of each kind are under way
	jobs                sync.WaitGroup
	ctx                 context.Context // of all jobs
	cancel              context.CancelFunc

	mu       sync.Mutex // of all below, of the start of jobs, and of changes to the table
	closed   bool
	sweeping bool // the sweeper runs
	stop     chan struct{}
}

// leaseStore is where blocks come from, and go back to.
type leaseStore interface {
	Take(context.Context, stint.Request) (stint.Decision, error)
	Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error)
}

// leaseTime is one look at both clocks, in nanoseconds.
type leaseTime struct{ wall, mono int64 }

// newLeases returns leases over a store. Close them to give back what is unused.
func newLeases(store leaseStore, c Config) *leases {
	l := &leases{
		store:  store,
		log:    c.Logger,
		seed:   maphash.MakeSeed(),
		start:  time.Now(),
		mark:   1 + rand.Uint64N(1<<markBits-1),
		table:  newLeaseTable(c.Leases),
		misses: newLeaseSketch(c.Leases),
		stop:   make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *leases) now() leaseTime { return l.at(time.Now()) }

// at is an instant that was just read from the clock.
func (l *leases) at(t time.Time) leaseTime {
	if l.clock != nil {
		return l.clock()
	}
	return leaseTime{wall: t.UnixNano(), mono: int64(t.Sub(l.start))}
}

// serve answers a request that may be leased and was just made, and reports whether it did.
func (l *leases) serve(r *stint.Request, d *stint.Decision, asked time.Time) bool {
	_, ls := l.find(r)
	if ls == nil {
		return false
	}
	now := l.at(asked)
	served, renew := ls.serve(r, now, l.mark, d)
	if renew && ls.renewal.may(now) {
		l.renew(ls, now)
	}
	return served
}

// find returns the lease of a request, or nil, and its hash.
func (l *leases) find(r *stint.Request) (uint64, *lease) {
	bans := appliesBans(r)
	hash := l.hash(&r.Claims[0], bans)
	return hash, l.table.find(hash, &r.Claims[0], bans)
}

// leasable reports whether a request may be served from memory.
func leasable(r *stint.Request) bool {
	if len(r.Claims) != 1 || r.Mode != stint.ModeTake || r.Claims[0].Cost <= 0 || r.ID != "" || r.Terms().Fit ||
		r.Terms().Lease != 0 {
		return false
	}
	for i := range r.Claims[0].Limits {
		if !r.Claims[0].Limits[i].Leased {
			return false
		}
	}
	return len(r.Claims[0].Limits) > 0
}

// appliesBans reports whether the subject's ban concerns a request that can be leased: one with a
// single claim.
func appliesBans(r *stint.Request) bool { return r.Bans != nil && !r.Claims[0].Shared }

// hash is that of a lease. Requests that apply bans do not share with those that do not.
func (l *leases) hash(c *stint.Claim, bans bool) uint64 {
	key := *c
	key.Cost, key.Shared = 0, false // bans says it
	h := uint64(1)
	if bans {
		h = 2
	}
	return hashClaim(l.seed, h, maphash.String(l.seed, c.Subject), &key)
}

// leaseMiss is a request that has to go to the store although it may be leased.
type leaseMiss struct {
	lease *lease // nil if there is none
	first bool   // the lease is new
	at    leaseTime
}

// miss notes that there is demand for a lease.
func (l *leases) miss(r *stint.Request) (m leaseMiss) {
	m.at = l.now()
	var hash uint64
	if hash, m.lease = l.find(r); m.lease == nil {
		// A new lease asks for its first block once this request has its unit. One that is there
		// already has other requests waiting, and renews at once.
		m.lease = l.again(r, hash, m.at)
		m.first = m.lease != nil
	}
	if ls := m.lease; ls != nil && ls.missed(r.Claims[0].Cost, m.at, ls.length(l.roundTrip.Load())) &&
		!m.first && ls.renewal.may(m.at) {
		l.renew(ls, m.at)
	}
	return m
}

// missed takes over what was decided on a request that missed its lease.
func (l *leases) missed(m leaseMiss, d *stint.Decision) {
	if d.Degraded {
		return
	}
	now := l.now()
	if rt := l.roundTrip.Load(); rt == 0 || m.lease.tooShort(rt) {
		l.measure(now.mono - m.at.mono) // else renewals do
	}
	switch {
	case d.Banned:
		l.dropLease(m.lease, true)
	case m.first && d.Allowed && m.lease.renewal.may(now):
		l.renew(m.lease, now)
	}
}

// again notes a miss of a request that has no lease, and returns a new lease if it is the second
// within its length.
func (l *leases) again(r *stint.Request, hash uint64, now leaseTime) *lease {
	since, ok := l.misses.again(hash, now.mono)
	if !ok {
		return nil
	}
	bans := appliesBans(r)
	ls := newLease(hash, &r.Claims[0], bans)
	length := ls.length(l.roundTrip.Load())
	if since > int64(length) || r.Claims[0].Cost > ls.capacity {
		return nil
	}
	ls.begin(r.Claims[0].Cost, max(since, int64(length)/8), now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if other := l.table.find(hash, &r.Claims[0], bans); other != nil {
		return other
	}
	if !l.table.add(ls) {
		return nil
	}
	if !l.sweeping {
		l.sweeping = true
		l.jobs.Go(l.sweepUntilIdle)
	}
	return ls
}

// measure learns how far away the store is. It follows what takes longer faster than what takes
// less, for a renewal that comes too late costs more than one that is early.
func (l *leases) measure(took int64) {
	old := l.roundTrip.Load()
	next := max(took, 1)
	switch {
	case old == 0:
	case next > old:
		next = old + (next-old)/4
	default:
		next = old - (old-next)/16
	}
	l.roundTrip.CompareAndSwap(old, next) // else another renewal just did
}

// amend settles a charge from memory in the block that it came from, if that is still alive. Once
// it has ended, what it used is in the store as one charge: a settlement of a part of that changes
// it there, like any other.
func (l *leases) amend(ctx context.Context, c *stint.Charge, a stint.Amendment) (
	here bool, done stint.Amended, err error) {
	if err := a.Validate(c); err != nil {
		return true, done, err
	}
	if err := ctx.Err(); err != nil {
		return true, done, &stint.StoreError{Op: opAmend, Err: err}
	}
	if a.Kind != stint.AmendSettle {
		return true, done, nil
	}
	for _, bans := range []bool{false, true} {
		ls := l.table.find(l.hash(&c.Claims()[0], bans), &c.Claims()[0], bans)
		if ls == nil {
			continue
		}
		if found, done := ls.settle(c, a); found {
			if done.Changed {
				l.settled.Add(c.Data().ID, &c.Claims()[0])
			}
			return true, done, nil
		}
	}
	if c.Data().ID>>markShift != l.mark || l.settled.Has(c.Data().ID, &c.Claims()[0]) {
		return true, done, nil
	}
	c.Data().Leased = false
	return false, done, nil
}

// commanded ends the leases that a command concerns: a reset or a ban. Units that are given back
// are those of earlier times: what is held here is not used yet, and the store leaves it alone as
// far as it can tell, see [stint.CommandGiveBack].
func (l *leases) commanded(c *stint.Command) {
	if c.Kind == stint.CommandUnban || c.Kind == stint.CommandGiveBack {
		return
	}
	concerned := func(ls *lease) bool { return c.Kind == stint.CommandBan || ls.claim.Scope == c.Scope }
	l.dropAll(c.Subject, concerned, c.Kind == stint.CommandBan) // a reset forgets what was leased; see drop
}

// drop ends the leases of a subject at once, or all of them if it is empty: for announcements that
// it was banned or reset, which would otherwise take effect only when its blocks end.
//
// What the blocks had left is not given back: it counts until a window after their end, unless the
// subject was reset. After a reset it must not be, for the store finds what is given back by its
// stamp alone, and others may have been charged at the same stamp since.
func (l *leases) drop(subject string) {
	l.dropAll(subject, func(*lease) bool { return true }, false)
}

func (l *leases) dropAll(subject string, concerned func(*lease) bool, back bool) {
	for _, ls := range l.table.of(&l.mu, subject) {
		if concerned(ls) {
			l.dropLease(ls, back)
		}
	}
}

// dropLease ends one lease and forgets it. A renewal that is under way will find it gone.
func (l *leases) dropLease(ls *lease, back bool) {
	l.mu.Lock()
	l.table.remove(ls)
	l.mu.Unlock()
	for _, g := range ls.end(back) {
		l.giveBackSoon(g)
	}
}

// closeTime bounds each of the two things that Close waits for.
const closeTime = time.Second

// Close gives back what is unused and ends all goroutines. It waits for renewals that are under
// way, and then for the giving back, for a second each at most. What could not be given back is an
// error; it counts until a window after its end. Later requests go to the store.
func (l *leases) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.mu.Unlock()
	defer l.cancel()

	waitFor(&l.jobs, closeTime)
	var backs []giveBack
	for _, ls := range l.table.of(&l.mu, "") {
		l.mu.Lock()
		l.table.remove(ls)
		l.mu.Unlock()
		backs = append(backs, ls.end(true)...)
	}
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range min(maxReturns, len(backs)) {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(len(backs)); i = next.Add(1) {
				if l.giveBack(backs[i-1]) == nil {
					done.Add(1)
				}
			}
		})
	}
	waitFor(&workers, closeTime)
	if n := int64(len(backs)) - done.Load(); n > 0 {
		return fmt.Errorf("stint: leases: %d of %d blocks could not be given back", n, len(backs))
	}
	return nil
}

// waitFor waits for a group, for some time at most.
func waitFor(group *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
