package memorystore

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// maxPlain is the maximum number of limits for TakePlain: a Decision stores that many usages
// inline.
const maxPlain = 3

// plain is a Store whose only method is TakePlain, the fast path of Limiter.Allow. The type keeps
// TakePlain out of the methods of Store.
type plain Store

// Plain returns the store and its fast path for decisions, for package stint. A limiter uses the
// fast path only if it has this store itself, not a store that embeds it.
func (s *Store) Plain() (store stint.Store, taker any) { return s, (*plain)(s) }

// TakePlain decides the most common requests, for Take and for limiters: one subject that has a
// record, a few limits with one name, no concurrency limit, a clock that runs forward, no bookings
// and no ban to check. It decides like query.decide, but takes half as long: it omits everything
// that such requests do not need, changes the counts in the record without copying them, and
// returns results that fit into registers and a few words on the stack.
//
// TakePlain reports false and writes nothing if a request is not of this kind, if it would be
// denied and bans apply, or if the call must fail. Take must then answer the request.
func (p *plain) TakePlain(ctx context.Context, subject, scope string, limits []stint.Limit, cost int64, bans bool) (
	id uint64, now int64, generation uint32, retry time.Duration, ok bool, first, second, third stint.Usage) {
	s := (*Store)(p)
	if ctx.Err() != nil || s.closed.Load() || cost <= 0 {
		return
	}
	h := maphash.String(s.seed, subject)
	sh := &s.shards[h>>s.shift]
	hash := withScope(s.seed, h, scope, limits[0].Name)
	now = s.read()
	sh.mu.Lock()
	now = sh.follow(now)
	r := sh.find(hash, subject, scope, limits[0].Name)
	if r == nil || now < r.last || bans && sh.bans != 0 {
		sh.mu.Unlock()
		return
	}
	fits := true
	for i := range limits {
		index, tag := sh.locate(r, &limits[i])
		if tag == 0 || limits[i].Algorithm == stint.AlgorithmConcurrency || r.state(index).Booked() {
			sh.mu.Unlock()
			return
		}
		v := &sh.plain[i]
		v.Open(r.state(index), sh.params(tag), now, 0)
		fits = fits && v.Fits(cost)
	}
	if !fits && bans {
		sh.mu.Unlock()
		return
	}
	var usages [maxPlain]stint.Usage
	grown, latest := 0, now
	for i := range limits {
		v, u := &sh.plain[i], &usages[i]
		if fits {
			grown += v.Charge(cost)
		} else if !v.Fits(cost) {
			t := v.Earliest(now, cost)
			u.RetryAfter = wait(t, now)
			latest = max(latest, t)
		}
		u.Used, u.ResetAfter = v.Used(), contract.Duration(v.Reset())
	}
	if fits {
		id, r.last = sh.nextSerial(), now
	} else {
		retry = wait(latest, now)
	}
	generation = r.generation
	sh.mu.Unlock()
	if grown != 0 {
		s.makeRoom(&written{subject: subject, shard: sh.number, now: now, bytes: int64(grown), spare: []*record{r}})
	}
	return id, now, generation, retry, true, usages[0], usages[1], usages[2]
}

// takePlain decides a request with TakePlain, and reports whether that was possible.
func (s *Store) takePlain(ctx context.Context, r *stint.Request, d *stint.Decision) bool {
	c, terms := &r.Claims[0], r.Terms()
	if len(r.Claims) != 1 || r.Mode != stint.ModeTake || r.ID != "" || r.Hold != 0 || c.Costs != nil ||
		terms.Fit || terms.Lease != 0 || c.Subject == "" || len(c.Limits) == 0 || len(c.Limits) > maxPlain {
		return false
	}
	id, now, generation, retry, ok, first, second, third :=
		(*plain)(s).TakePlain(ctx, c.Subject, c.Scope, c.Limits, c.Cost, r.Bans != nil)
	if !ok {
		return false
	}
	d.Charge.SetClaims(r.Claims)
	data := d.Charge.Data()
	data.ID, data.Now, data.Generation, d.RetryAfter = id, now, generation, retry
	if id != 0 {
		d.Allowed, data.At = true, now
	} else {
		d.Denier = 1
	}
	usages := [...]stint.Usage{first, second, third}
	copy(d.MakeUsages(len(c.Limits)), usages[:])
	return true
}
