package memorystore

import (
	"unsafe"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/contract"
)

// ban holds a subject's ban, and the strikes that may lead to one.
type ban struct {
	known    bool // whether there is a ban; if so, until, at, level and forgive describe it
	until    int64
	at       int64 // when the ban was last written
	level    int
	forgive  int64 // BanPolicy.Forgive in microseconds
	strikes  algorithm.Count
	struckAt int64            // time of the last strike
	counts   algorithm.Params // parameters of the log that counted the last strike
}

// stepped returns b.until and b.at, moved back if the clock stepped back.
func (b *ban) stepped(now int64) (until, at int64) {
	if now < b.at {
		return b.until - (b.at - now), now
	}
	return b.until, b.at
}

// end returns the end of a ban, or 0 if there is none. b may be nil.
func (b *ban) end(now int64) int64 {
	if b == nil || !b.known {
		return 0
	}
	until, _ := b.stepped(now)
	return until
}

// strike counts a denial. It returns the end of the ban that the denial leads to, or 0.
func (b *ban) strike(p *stint.BanPolicy, now int64) int64 {
	b.counts = algorithm.Strikes(p.After, p.Within)
	if now < b.struckAt {
		b.strikes.StepBack(b.struckAt-now, now)
	}
	b.struckAt = now
	var v algorithm.View
	v.Open(&b.strikes, &b.counts, now, 0)
	v.Charge(1)
	if v.Used() < int64(p.After) || len(p.Durations) == 0 {
		return 0
	}
	b.strikes = algorithm.Count{}
	b.forgive = p.Forgive.Microseconds()
	if until, _ := b.stepped(now); !b.known || now-until >= b.forgive {
		b.level = 1
	} else {
		b.level++
	}
	length := p.Durations[min(b.level, len(p.Durations))-1]
	b.known, b.until, b.at = true, now+length.Microseconds(), now
	return b.until
}

func (b *ban) struck(now int64) int64 {
	var v algorithm.View
	v.Open(&b.strikes, &b.counts, now, max(b.struckAt-now, 0))
	return v.Used()
}

// byHand makes a manual ban of the given length. If the subject already has a ban that ends later,
// the end does not change. The level stays, but becomes 0 if the last ban has been forgiven.
func (b *ban) byHand(length, now int64) {
	until, _ := b.stepped(now)
	if now-until >= b.forgive {
		b.level, b.forgive = 0, 0
	}
	b.known, b.until, b.at = true, max(until, now+length), now
}

// dead reports whether the ban can be forgotten without changing any later answer.
func (b *ban) dead(now int64) bool {
	if b == nil {
		return true
	}
	if b.known && (now < b.at || b.until+b.forgive >= now) {
		return false
	}
	return now >= b.struckAt && b.strikes.Dead(&b.counts, now)
}

func (b *ban) bytes() int {
	if b == nil {
		return 0
	}
	return int(allocated(unsafe.Sizeof(*b))) + b.strikes.Bytes()
}

// banned answers a request if one of its subjects is banned, and reports whether it did. It ignores
// shared subjects.
func (q *query) banned(r *stint.Request, d *stint.Decision) bool {
	if !contract.AppliesBans(r) {
		return false
	}
	for i := range q.claims {
		c := &q.claims[i]
		if c.Shared {
			continue
		}
		b := q.ban(c)
		if end := b.end(q.now); end > q.now {
			d.Banned, d.Denier, d.BanLeft = true, uint8(i+1), contract.Duration(end-q.now)
			d.RetryAfter = d.BanLeft
			q.stepBans(r)
			return true
		}
	}
	return false
}

// stepBans moves the times of bans back if the clock stepped back. It ignores claims that cost
// nothing and shared subjects.
func (q *query) stepBans(r *stint.Request) {
	if r.Mode == stint.ModePeek || !contract.AppliesBans(r) {
		return
	}
	for i := range q.claims {
		c := &q.claims[i]
		if !contract.Charges(c.Claim) || c.Shared {
			continue
		}
		if b := q.ban(c); b != nil && b.known {
			b.until, b.at = b.stepped(q.now)
		}
	}
}

// ban returns the ban of a claim's subject, or nil if there is none. The ban is in the subject's
// record with an empty scope.
func (q *query) ban(c *claim) *ban {
	if c.shard.bans == 0 {
		return nil
	}
	if c.Scope == "" {
		return banOf(q.parts[c.part].rec)
	}
	return banOf(c.shard.find(c.hash, c.Subject, "", ""))
}

func (q *query) newBan(c *claim) *ban {
	r := q.parts[q.part(c, "", "")].record()
	if banOf(r) == nil {
		r.more().ban = new(ban)
		c.shard.bans++
	}
	return r.rest.ban
}
