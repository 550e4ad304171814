package redisstore

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// maxCeilings is the maximum number of shared subjects in ceilings. Usually there are few.
const maxCeilings = 1024

// ceilings holds the last known usage of shared subjects, for decisions that do not ask about these
// subjects because the caller's own limits deny the request.
type ceilings struct {
	mu   sync.Mutex
	seen map[string]ceiling // ceilings by subject
}

type ceiling struct {
	claims []stint.Claim // claims without their subjects
	usages []stint.Usage
	at     time.Time
}

func (c *ceilings) note(g *group) {
	now, usages := time.Now(), g.decision.Usages()
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.seen[g.claims[0].Subject]; ok && old.of(g) && len(old.usages) == len(usages) {
		copy(old.usages, usages)
		old.at = now
		c.seen[g.claims[0].Subject] = old
		return
	}
	if c.seen == nil || len(c.seen) >= maxCeilings {
		c.seen = map[string]ceiling{}
	}
	next := ceiling{usages: slices.Clone(usages), at: now}
	for _, claim := range g.claims {
		next.claims = append(next.claims,
			stint.Claim{Scope: strings.Clone(claim.Scope), Limits: slices.Clone(claim.Limits)})
	}
	c.seen[strings.Clone(g.claims[0].Subject)] = next
}

// last returns the last known usage of a group, as a decision that does not deny. The usage is zero
// where it is not known or has expired.
func (c *ceilings) last(g *group) stint.Decision {
	d := stint.Decision{Allowed: true}
	n := contract.CountLimits(g.claims)
	usages := d.MakeUsages(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.seen[g.claims[0].Subject]
	if !ok || !known.of(g) || len(known.usages) != n {
		return d
	}
	passed := time.Since(known.at)
	for i, u := range known.usages {
		if u.ResetAfter > passed {
			usages[i] = stint.Usage{Used: u.Used, ResetAfter: (u.ResetAfter - passed).Truncate(time.Microsecond)}
		}
	}
	return d
}

// of reports whether the ceiling is for the claims of a group.
func (c *ceiling) of(g *group) bool {
	return slices.EqualFunc(c.claims, g.claims, func(a, b stint.Claim) bool {
		return a.Scope == b.Scope && slices.Equal(a.Limits, b.Limits)
	})
}
