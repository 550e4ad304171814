package resilience

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// memo remembers what a process last heard from the store about a subject, so that it
// need not begin with nothing when the store is gone. It is a table of fixed size in
// which the newest wins: knowing less is harmless, see [Fallback].
type memo struct {
	seed  maphash.Seed
	slots []known // as many as a power of two
}

// memoLimits is how many limits of a claim are remembered; claims with more are not.
const memoLimits = 3

// known is what was last said about a claim.
type known struct {
	mu      sync.Mutex
	key     uint64 // see identify
	subject uint64 // hash of the subject alone
	when    int64  // nanoseconds of the fallback's clock, as all times here
	banned  int64  // until when, 0 if not
	used    [memoLimits]int64
	reset   [memoLimits]int64 // when all of it will have been given back

	episode uint32 // the last in which the local store was told of it
	held    []hold // what it was told

	_ [8]byte // up to 128 bytes: two lines of memory that are fetched together
}

// hold is a charge to the local store for what the real one has counted before.
type hold struct {
	charge stint.Charge // without its claim
	cost   int64
	until  int64
	limit  uint8 // its index in the claim
}

func newMemo(slots int) *memo {
	return &memo{seed: maphash.MakeSeed(), slots: make([]known, 1<<bits.Len(uint(slots-1)))}
}

// identify returns the hash of whose state a claim names: the subject, its scope, and
// the identities of its limits. It returns that of the subject too.
func (m *memo) identify(c *stint.Claim) (key, subject uint64) {
	subject = maphash.String(m.seed, c.Subject)
	key = mix(subject, oddSubject^uint64(len(c.Limits)))
	if c.Scope != "" {
		key = mix(key^maphash.String(m.seed, c.Scope), oddScope)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		key = mix(key^uint64(l.Algorithm), oddWindow^uint64(l.Window))
		if l.Name != "" {
			key = mix(key^maphash.String(m.seed, l.Name), oddName)
		}
	}
	return key, subject
}

func (m *memo) slot(key uint64) *known { return &m.slots[key&uint64(len(m.slots)-1)] }

// remember notes what the store decided.
func (m *memo) remember(r *stint.Request, d *stint.Decision, now int64) {
	usages := d.Usages()
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		if len(usages) < len(c.Limits) {
			return // the store did not say
		}
		if len(c.Limits) <= memoLimits {
			banned := int64(0)
			if r.Bans == nil || c.Shared {
				banned = notAsked
			}
			if d.Banned && int(d.Decider) == i && d.RetryAfter > 0 {
				banned = after(now, d.RetryAfter)
			}
			m.note(c, usages[:len(c.Limits)], banned, now)
		}
		usages = usages[len(c.Limits):]
	}
}

// notAsked is for when the store was not asked whether the subject is banned.
const notAsked = -1

func (m *memo) note(c *stint.Claim, usages []stint.Usage, banned, now int64) {
	key, subject := m.identify(c)
	s := m.slot(key)
	if !s.mu.TryLock() {
		return // somebody else is just noting it
	}
	if s.key != key {
		s.key, s.subject, s.banned, s.episode, s.held = key, subject, 0, 0, nil
	}
	s.when = now
	if banned != notAsked {
		s.banned = banned
	}
	for k := range usages {
		s.used[k], s.reset[k] = usages[k].Used, after(now, usages[k].ResetAfter)
	}
	s.mu.Unlock()
}

// forget drops all that is known of a subject, in all its scopes.
func (m *memo) forget(name string) {
	subject := maphash.String(m.seed, name)
	for i := range m.slots {
		s := &m.slots[i]
		s.mu.Lock()
		if s.subject == subject {
			s.key, s.subject, s.held = 0, 0, nil
		}
		s.mu.Unlock()
	}
}

// after is an instant some time from another, as far ahead as there is.
func after(now int64, d time.Duration) int64 {
	return now + int64(min(max(d, 0), stint.MaxWindow*stint.MaxBurst))
}

// warm tells the local store what is known of a claim, before its first local decision
// in an episode: of what the store had left, the process has its part left. A ban is told
// whether or not this decision obeys bans, for a later one may.
func (f *Fallback) warm(c *stint.Claim, d *division, now int64) {
	if len(c.Limits) > memoLimits {
		return
	}
	key, _ := f.memo.identify(c)
	s := f.memo.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != key {
		return
	}
	f.letGo(s, c, d, now)
	episode := f.episode.Load()
	if s.episode == episode {
		return
	}
	s.episode = episode
	if s.banned > now {
		_ = f.local.Command(context.Background(), stint.Command{
			Kind: stint.Ban, Subject: c.Subject, For: time.Duration(s.banned - now).Round(time.Microsecond)})
	}
	look, err := f.local.Take(context.Background(), stint.Request{
		Claim: stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: d.parts}, Mode: stint.Peek})
	if err != nil {
		return
	}
	for k, u := range look.Usages() {
		f.hold(s, c, d, k, u.Used, now)
	}
	f.letGo(s, c, d, now) // what is in a meter only
}

// holdSteps is in how many steps a hold on a sliding limit is let go.
const holdSteps = 8

// hold charges the local store with the process's part of what is known to be used of
// one limit, less what it holds already.
//
// When the units that the store counted will leave their window is not known, only when the last of them
// does. A bucket and a fixed window give back by themselves as the real ones do, and so does the meter of a burst. A
// log would keep the whole hold for a full window, and so refuse a steady caller
// who never went over: its hold is let go in steps, as if it had been used evenly.
func (f *Fallback) hold(s *known, c *stint.Claim, d *division, k int, held, now int64) {
	whole, part := &d.whole[k], &d.parts[k]
	until, lasts := s.reset[k], s.reset[k]-s.when
	if until <= now || whole.Algorithm == stint.Concurrency { // whose holders are not ours
		return
	}
	used := min(s.used[k], whole.Capacity())
	from := s.when
	if whole.HasMeter() {
		window := int64(whole.Window)
		// The meter falls at the limit's rate, until it is empty; the log may have been the larger of the two.
		meter := int64(math.Ceil(min(float64(used), float64(until-now)/float64(window)*float64(whole.Max))))
		log := int64(0)
		if whole.Algorithm == stint.Sliding {
			log = used - int64(float64(used)*float64(now-s.when)/float64(min(lasts, window)))
		}
		used = max(meter, log)
		from, lasts = now, max(0, min(until, s.when+window)-now) // no log has it for longer
	}
	share := part.Capacity() - ceilDiv(whole.Capacity()-used, d.instances)
	if whole.Algorithm != stint.Sliding {
		f.charge(s, c, d, k, share-held, until)
		return
	}
	// The local store's own charges are the newest: they stand for the steps that are let
	// go last.
	for step := int64(holdSteps); step > 0 && share > 0; step-- {
		end := from + lasts/holdSteps*step
		if end <= now && !whole.HasMeter() {
			return
		}
		cost := share*step/holdSteps - share*(step-1)/holdSteps
		own := min(held, cost)
		held -= own
		f.charge(s, c, d, k, cost-own, end)
	}
}

// charge charges one limit in the local store with something to be let go later.
func (f *Fallback) charge(s *known, c *stint.Claim, d *division, k int, cost, until int64) {
	if cost <= 0 {
		return
	}
	r := stint.Request{Claim: stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: d.parts[k : k+1], Cost: cost}}
	taken, err := f.local.Take(context.Background(), r)
	if err == nil && taken.Allowed && d.whole[k].Algorithm == stint.Sliding {
		charge := stint.Charge{ID: taken.Charge.ID, At: taken.Charge.At, Generation: taken.Charge.Generation}
		s.held = append(s.held, hold{charge, cost, until, uint8(k)})
	}
}

// letGo gives back the holds that are due.
func (f *Fallback) letGo(s *known, c *stint.Claim, d *division, now int64) {
	if len(s.held) == 0 {
		return
	}
	kept := s.held[:0]
	for _, h := range s.held {
		if h.until > now {
			kept = append(kept, h)
			continue
		}
		// The meter of a burst gives back by itself. Under a limit without a burst, which has the same
		// state, the log alone is settled.
		log := d.parts[h.limit]
		log.Max, log.Burst = log.Capacity(), 0
		h.charge.Claim = stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: []stint.Limit{log}, Cost: h.cost}
		_, _ = f.local.Amend(context.Background(), h.charge, stint.Amendment{Kind: stint.Settle})
	}
	if s.held = kept; len(kept) == 0 {
		s.held = nil
	}
}
