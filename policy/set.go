package policy

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
)

// Set is a configuration that has been read and found good. It is immutable and safe for concurrent use.
type Set struct {
	store      Store
	failure    stint.FailurePolicy
	instances  int
	localBytes int64
	headers    Headers
	outbound   []outbound.API
	gateway    Gateway
	rules      []*Rule
	// clientField is where trusted proxies name the client.
	clientField string
	*judge
}

// Store is where a configuration wants its limits to be kept.
type Store struct {
	// URL is "memory" or that of a Redis.
	URL string
	// Prefix is what keys begin with; "" is the default of the store.
	Prefix string
	// Memory is how many bytes a store in memory may use; 0 is the default of the store.
	Memory int64
	// NameKeyFile has the key that subjects are hashed with in Redis, and PreviousNameKeyFile the one that it replaces.
	// "" is none.
	NameKeyFile, PreviousNameKeyFile string
}

// MinStoreMemory is the least that [Store.Memory] can be, in bytes.
const MinStoreMemory = 1 << 20

// Headers says what answers tell about limits.
type Headers struct {
	// X is for the X-RateLimit fields, Draft11 for RateLimit and RateLimit-Policy.
	X, Draft11 bool
	// ResetDelta has X-RateLimit-Reset count from now and not from 1970.
	ResetDelta bool
	// Jitter is the share that is added to Retry-After at most: 0.2 is a fifth.
	Jitter float64
}

// DefaultHeaders are what answers tell unless somebody says otherwise.
func DefaultHeaders() Headers { return Headers{X: true, Jitter: 0.2} }

// maxSpread bounds how much later than necessary somebody is told to come back.
const maxSpread = time.Minute

// Spread returns after how long to tell somebody to come back who has to wait: in whole units, at least one, never too
// early, and by up to the jitter later, so that those who were denied together do not come back together. Random is from 0
// to below 1.
func (h Headers) Spread(wait, unit time.Duration, random float64) time.Duration {
	n := max((wait+unit-1)/unit, 1)
	if h.Jitter > 0 {
		more := min(max(time.Duration(h.Jitter*float64(n)), 1), maxSpread/unit)
		n += time.Duration(random * float64(more+1))
	}
	return n * unit
}

// Store returns where the limits are to be kept.
func (s *Set) Store() Store { return s.store }

// Failure returns what happens when the store fails, unless a tier or a policy says otherwise.
func (s *Set) Failure() stint.FailurePolicy { return s.failure }

// FailureOf returns what happens when the store fails to requests that only a policy and a tier are for, either of which
// may be "": what the policy says, else the tier, else the configuration as a whole.
func (s *Set) FailureOf(policy, tier string) stint.FailurePolicy {
	for _, p := range s.policies {
		if p.name == policy && p.failure != nil {
			return *p.failure
		}
	}
	for _, t := range s.tiers {
		if t.name == tier {
			return *t.failure
		}
	}
	return s.failure
}

// ScopeOf returns in which part of its subjects a tier counts requests that have no route.
func (s *Set) ScopeOf(tier string) string {
	for _, t := range s.tiers {
		if t.name == tier {
			return t.scopeOf(otherScope)
		}
	}
	return globalScope
}

// Instances returns how many processes share the store as far as the configuration knows; 0 if it does not say.
func (s *Set) Instances() int { return s.instances }

// LocalBytes returns how much memory deciding without the store may take; 0 if the configuration does not say.
func (s *Set) LocalBytes() int64 { return s.localBytes }

// Headers returns what answers tell about limits.
func (s *Set) Headers() Headers { return s.headers }

// Outbound returns the APIs that are called, by name.
func (s *Set) Outbound() []outbound.API { return slices.Clone(s.outbound) }

// Gateway returns what the configuration says about a gateway.
func (s *Set) Gateway() Gateway {
	g := s.gateway
	g.Routes = slices.Clone(g.Routes)
	return g
}

// Trusts reports whether a peer's word is taken about whom it forwards; see client_ip.trusted_proxies. An invalid
// address is a peer on a Unix socket.
func (s *Set) Trusts(peer netip.Addr) bool { return s.resolver.Trusts(peer) }

// ClaimFields returns the header fields in which trusted proxies assert claims; see claims.
func (s *Set) ClaimFields() []string { return slices.Sorted(maps.Values(s.asserted)) }

// ClientField returns the header field in which trusted proxies name the client.
func (s *Set) ClientField() string { return s.clientField }

// Tiers returns the names of the tiers, in their order.
func (s *Set) Tiers() []string {
	names := make([]string, len(s.tiers))
	for i, t := range s.tiers {
		names[i] = t.name
	}
	return names
}

// Policies returns the names of the policies, in their order.
func (s *Set) Policies() []string { return slices.Clone(s.order) }

// Rules returns every rule of the set. That at i has the Index i.
func (s *Set) Rules() []*Rule { return s.rules }
