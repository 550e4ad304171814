package resilience

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// grant is a number of units that were granted without the store, and as of which instant.
type grant struct{ at, units int64 }

const (
	// maxGrants is how many instants are kept of what is owed under a limit.
	maxGrants = 32
	// maxSendings is how many sendings of a subject are under way at once, without those of
	// requests that have an ID.
	maxSendings = 8
	// maxOwing is how many subjects may owe something.
	maxOwing = 65_536
	// owedIDLife is how long the store remembers that something owed was charged: longer than it
	// takes to learn that it was not, and to send it again.
	owedIDLife = 30 * time.Second
)

// owe adds units. Grants are merged into the later instant: at worst units count longer.
func (k *known) owe(at, units int64) {
	near := int64(k.limit.Window) / maxGrants
	for i := range k.grants {
		if g := &k.grants[i]; at-g.at < near && g.at-at < near {
			g.at, g.units = max(g.at, at), g.units+units
			return
		}
	}
	if len(k.grants) == maxGrants {
		k.grants[1].units += k.grants[0].units
		k.grants = slices.Delete(k.grants, 0, 1)
	}
	k.grants = append(k.grants, grant{at, units})
}

// drop subtracts units from what is owed and still counts, and returns how many were not owed. The
// oldest go first: what is left counts no shorter than what it stands for.
func (k *known) drop(units, now int64) int64 {
	for i := 0; units > 0 && i < len(k.grants); i++ {
		g := &k.grants[i]
		if now-g.at >= int64(counts(&k.limit)) {
			continue
		}
		n := min(units, g.units)
		units -= n
		g.units -= n
		k.uncharged = max(k.uncharged-n, 0)
	}
	k.grants = slices.DeleteFunc(k.grants, func(g grant) bool { return g.units == 0 })
	return units
}

// granted is what a caller was granted without the store.
type granted struct {
	at     int64
	charge uint64 // local
	id     string // of the request
	life   time.Duration
	claims []stint.Claim
	resets uint64 // how many there had been, of any subject
}

// grant returns a copy of what a request was granted.
func (l *local) grant(r *stint.Request, charge uint64, at int64) *granted {
	g := &granted{at: at, charge: charge, id: r.ID, life: contract.Life(r), claims: make([]stint.Claim, len(r.Claims)),
		resets: l.resets.Load()}
	for i := range g.claims {
		c := r.Claims[i]
		c.Subject, c.Scope = strings.Clone(c.Subject), strings.Clone(c.Scope)
		c.Limits = l.parts.of(c.Limits, 1).whole
		g.claims[i] = c
	}
	return g
}

// each calls f with the limits of what was granted, but for those that were reset since. The locks
// are held.
func (l *local) each(g *granted, f func(rec *record, k *known, c *stint.Claim)) {
	for i := range g.claims {
		c := &g.claims[i]
		rec := l.find(c)
		if c.Cost == 0 {
			continue
		}
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil && k.reset <= g.resets {
				f(rec, k, c)
			}
		}
	}
}

// owe has the store charged with what was granted. It reports false if too much is owed already. A
// request with an ID is sent again under that ID, and a booking is one in the store too; both can
// be amended there afterwards.
func (l *local) owe(g *granted, now int64) (ok bool) {
	set := l.lock(g.claims)
	defer l.unlock(set)
	ok = true
	if g.id == "" && g.at > now {
		g.id, g.life = rand.Text(), owedIDLife
	}
	if g.id == "" || now-g.at >= int64(g.life) {
		l.each(g, func(rec *record, k *known, c *stint.Claim) {
			ok = l.add(rec, k, g.at, c.Cost) && ok
		})
		return ok
	}
	s := &sending{charge: g.charge, until: g.at + int64(g.life), at: g.at, requests: []stint.Request{{
		Claims: g.claims, ID: g.id, IDLife: g.life, Mode: driver.ModeForce}}}
	l.each(g, func(rec *record, k *known, c *stint.Claim) {
		s.parts = append(s.parts, sentPart{rec: rec, limit: k, units: c.Cost})
	})
	switch home := l.find(&g.claims[0]); {
	case len(s.parts) == 0 || home == nil: // all of it was reset
	case l.owing.Load() >= maxOwing:
		for _, p := range s.parts {
			p.limit.uncharged = max(p.limit.uncharged-p.units, 0)
		}
		return false
	default:
		l.markOwing(home)
		home.sent = append(home.sent, s)
	}
	return true
}

// oweRequest is owe for a request without an ID that has just been granted.
func (l *local) oweRequest(r *stint.Request, at int64) (ok bool) {
	set := l.lock(r.Claims)
	defer l.unlock(set)
	ok = true
	for i := range r.Claims {
		c := &r.Claims[i]
		rec := l.find(c)
		for j := range c.Limits {
			if k := rec.of(&c.Limits[j]); k != nil && c.Cost > 0 {
				ok = l.add(rec, k, at, c.Cost) && ok
			}
		}
	}
	return ok
}

// add adds units to what is owed under a limit. The lock is held.
func (l *local) add(rec *record, k *known, at, units int64) bool {
	if k.limit.Algorithm == stint.AlgorithmConcurrency {
		return true // the holder's heartbeats charge it
	}
	if !rec.owing && l.owing.Load() >= maxOwing {
		k.uncharged = max(k.uncharged-units, 0)
		return false
	}
	l.markOwing(rec)
	k.owe(at, units)
	return true
}

// markOwing notes that a record has something to charge, and clearOwing that it may have nothing.
func (l *local) markOwing(rec *record) {
	if !rec.owing {
		rec.owing = true
		l.owing.Add(1)
	}
}

func (l *local) clearOwing(rec *record) {
	if rec.owing && len(rec.sent) == 0 &&
		!slices.ContainsFunc(rec.limits, func(k *known) bool { return len(k.grants) > 0 }) {
		rec.owing = false
		l.owing.Add(-1)
	}
}

// counted notes that the store counts what was granted.
func (l *local) counted(g *granted, now int64) {
	set := l.lock(g.claims)
	defer l.unlock(set)
	step := l.step.Add(1)
	l.each(g, func(_ *record, k *known, c *stint.Claim) {
		k.charged(c.Cost, now, step, nil)
	})
}
