package resilience

import (
	"hash/maphash"
	"math/bits"

	"github.com/stint-limiter/stint"
)

// Odd numbers without a pattern, one for each kind of step in a hash. Their highest bits differ,
// and no field of a valid claim reaches those: equal values in different fields hash differently,
// and no value makes a factor zero.
const (
	oddSubject = 0xa0761d6478bd642f
	oddScope   = 0xe7037ed1a0b428db
	oddWindow  = 0x8ebc6af09c88c6e3
	oddKind    = 0x9fb21c651e98df25
	oddName    = 0xd6e8feb86659fd93

	// sharedBit is set beside the cost of a claim that is Shared: above any cost, below those bits.
	sharedBit = 1 << 54
)

// hashClaim adds all fields of a claim to a hash: subject, scope, cost, whether it is shared, and
// its limits, their Max and Burst included. The hash of the subject is given, for callers need it
// too. Strings are hashed with a secret seed, so nobody can choose two claims that collide; two
// collide by chance as rarely as 64 bits are guessed.
func hashClaim(seed maphash.Seed, h, subject uint64, c *stint.Claim) uint64 {
	cost := uint64(c.Cost)
	if c.Shared {
		cost |= sharedBit
	}
	h = mix(h^subject, oddSubject^cost)
	if c.Scope != "" {
		h = mix(h^maphash.String(seed, c.Scope), oddScope)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		kind := uint64(l.Algorithm) << 1
		if l.Leased {
			kind++
		}
		h = mix(h^uint64(l.Max), oddWindow^uint64(l.Window))
		h = mix(h^uint64(l.Burst), oddKind^kind)
		if l.Name != "" {
			h = mix(h^maphash.String(seed, l.Name), oddName)
		}
	}
	return h
}

// mix multiplies and folds, as wyhash does: every bit of the result depends on every bit of both.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
