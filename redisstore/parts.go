package redisstore

import (
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// part is what one key holds of a claim: the limits of one name, or the holders of one concurrency
// limit.
type part struct {
	claim     int // its number, from 0
	subject   string
	scope     string
	name      string
	limits    []stint.Limit
	positions []uint8 // where each is among the claim's limits; nil: in the same order
	first     int     // where the claim's limits begin among those of all claims
	cost      int64
	set       *set // nil if it is a concurrency limit
}

// holders reports whether the part is a concurrency limit.
func (p *part) holders() bool { return p.limits[0].Algorithm == stint.AlgorithmConcurrency }

// position returns where the ith limit of the part is among those of all claims.
func (p *part) position(i int) int {
	if p.positions != nil {
		i = int(p.positions[i])
	}
	return p.first + i
}

// appendParts divides a claim into parts: those with a state in the order of its StateNames, then
// its concurrency limits.
func appendParts(parts []part, claim, first int, c *stint.Claim) []part {
	p := part{claim: claim, subject: c.Subject, scope: c.Scope, first: first, cost: c.Cost}
	if len(c.Limits) == 0 {
		return parts
	}
	if uniform(c.Limits) { // as a rule
		p.name, p.limits = c.Limits[0].Name, c.Limits
		return append(parts, p)
	}
	var buf [stint.MaxLimits]string
	for _, name := range contract.StateNames(c, buf[:0]) {
		p.name, p.limits, p.positions = name, nil, nil
		for i := range c.Limits {
			if l := &c.Limits[i]; l.Name == name && l.Algorithm != stint.AlgorithmConcurrency {
				p.limits, p.positions = append(p.limits, *l), append(p.positions, uint8(i))
			}
		}
		parts = append(parts, p)
	}
	for i := range c.Limits {
		if l := &c.Limits[i]; l.Algorithm == stint.AlgorithmConcurrency {
			p.name, p.limits, p.positions = l.Name, c.Limits[i:i+1], []uint8{uint8(i)}
			parts = append(parts, p)
		}
	}
	return parts
}

// uniform reports whether all limits are in one state.
func uniform(limits []stint.Limit) bool {
	for i := range limits {
		if limits[i].Algorithm == stint.AlgorithmConcurrency || limits[i].Name != limits[0].Name {
			return false
		}
	}
	return true
}

// partsOf returns the parts of claims.
func partsOf(parts []part, claims []stint.Claim) []part {
	n := 0
	for i := range claims {
		parts = appendParts(parts, i, n, &claims[i])
		n += len(claims[i].Limits)
	}
	return parts
}
