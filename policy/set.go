package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/pathpattern"
)

// Set is a valid set of policies. It is immutable and safe for concurrent use.
type Set struct {
	spec  *Spec
	rules []*Rule

	resolver *clientip.Resolver
	asserted map[string]string
	tiers    []*tier
	all      []*policy // in the order of the spec
	exempt   []*policy // policies in all that skip
	policies []*policy // all other policies
	methods  []string  // methods in conditions; all known methods if a count is divided by method
	patterns []patternUse
	endings  []*pathpattern.Pattern // patterns that limit and depend on how a path ends
	upper    bool                   // a pattern has upper-case letters
	chosen   []*identity            // identities from headers or cookies, set by callers
	cookies  []string               // names of the cookies of these identities

	identities int // number of identities

	id *requestID // default for policies without their own
}

// Spec returns the spec that the set was made from, with defaults filled in. The spec must not be
// changed.
func (s *Set) Spec() *Spec { return s.spec }

// Trusts reports whether a peer is trusted to name the client it forwards for; see
// client_ip.trusted_proxies. An invalid address is a peer on a Unix socket.
func (s *Set) Trusts(peer netip.Addr) bool { return s.resolver.Trusts(peer) }

// Rules returns every rule of the set. The rule at index i has Index i.
func (s *Set) Rules() []*Rule { return s.rules }
