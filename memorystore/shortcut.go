package memorystore

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/shortcut"
)

// short is the store as package stint asks it for the simplest requests, see its shortcut.go.
type short Store

func init() {
	shortcut.Of = func(store any) any {
		if s, ok := store.(*Store); ok { // and not one that embeds it, which is to see every request
			return (*short)(s)
		}
		return nil
	}
}

// TakeOne is quick for one limit, without bans. It leaves everything else to Take, failures too.
func (h *short) TakeOne(ctx context.Context, limit *stint.Limit, subject string, cost int64) (
	id uint64, now int64, generation uint32, u stint.Usage, ok bool) {
	s := (*Store)(h)
	if ctx.Err() != nil || s.closed.Load() || cost <= 0 {
		return
	}
	sh, rec, now := s.enter(subject, limit.Name)
	if rec == nil || now < rec.last {
		sh.mu.Unlock()
		return
	}
	c, p := sh.usual(rec, limit)
	if c == nil || c.Booked() {
		sh.mu.Unlock()
		return
	}
	v := &sh.quicks[0]
	v.Open(c, p, now, 0)
	if v.Fits(cost) {
		sh.grown += int64(v.Charge(cost))
		rec.last = now
		id = sh.nextSerial()
	} else {
		u.RetryAfter = wait(v.Earliest(now, cost), now)
	}
	u.Used, u.ResetAfter = v.Used(), duration(v.Reset())
	generation = rec.generation
	sh.leave(rec, now)
	return id, now, generation, u, true
}

// TakeFew is TakeOne for a few limits.
func (h *short) TakeFew(ctx context.Context, limits []stint.Limit, subject string, cost int64) (
	id uint64, now int64, generation uint32, retry time.Duration, few [3]stint.Usage, ok bool) {
	s := (*Store)(h)
	if ctx.Err() != nil || s.closed.Load() || cost <= 0 {
		return
	}
	sh, rec, now := s.enter(subject, limits[0].Name)
	fits, ok := sh.quickOpen(rec, limits, cost, now)
	if !ok {
		sh.mu.Unlock()
		return
	}
	usages := few[:len(limits)]
	if fits {
		sh.quickCharge(rec, usages, cost, now)
		id = sh.nextSerial()
	} else {
		retry = sh.quickDeny(usages, cost, now)
	}
	sh.quickUsed(usages)
	generation = rec.generation
	sh.leave(rec, now)
	return id, now, generation, retry, few, true
}

// enter locks a subject's shard and finds the record of its limits with a name.
func (s *Store) enter(subject, name string) (sh *shard, rec *record, now int64) {
	h := maphash.String(s.seed, subject)
	sh = &s.shards[h>>s.shift]
	hash := withScope(s.seed, h, "", name)
	now = s.read()
	sh.mu.Lock()
	now = sh.follow(now)
	return sh, sh.find(hash, subject, "", name), now
}
