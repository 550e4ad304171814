package memorystore

import "github.com/stint-limiter/stint"

// banned answers a request of which a subject is banned.
func (q *query) banned(r *stint.Request, d *stint.Decision) bool {
	if r.Bans == nil {
		return false
	}
	for i := range q.parts {
		c := claimAt(&r.Claim, r.And, i)
		b := banOf(q.banRecord(&q.parts[i], c))
		if end := b.end(q.now); end > q.now {
			d.Banned, d.Decider, d.RetryAfter = true, uint8(i), duration(end-q.now)
			q.stepBans(r)
			return true
		}
	}
	return false
}

// stepBans writes that the clock stepped back to the bans of the subjects that
// the request was to charge.
func (q *query) stepBans(r *stint.Request) {
	if r.Mode == stint.Peek || r.Bans == nil {
		return
	}
	for i := range q.parts {
		c := claimAt(&r.Claim, r.And, i)
		if c.Cost == 0 {
			continue
		}
		if b := banOf(q.banRecord(&q.parts[i], c)); b != nil && b.known {
			b.until, b.at = b.stepped(q.now)
		}
	}
}
