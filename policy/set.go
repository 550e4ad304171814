package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/pathpattern"
)

// Set is a set of policies that was found good. It is immutable and safe for concurrent use.
type Set struct {
	spec  *Spec
	rules []*Rule

	resolver *clientip.Resolver
	asserted map[string]string
	tiers    []*tier
	all      []*policy // in the order of the spec
	exempt   []*policy // those of them that skip
	policies []*policy // the others
	methods  []string  // those that conditions name; if counts are divided by method, all that are known
	patterns []patternUse
	endings  []*pathpattern.Pattern // those of them that limit, and by how a path ends
	upper    bool                   // a pattern has letters in upper case
	chosen   []*identity            // those that requests choose, in a header or cookie
	cookies  []string               // their names

	identities int // how many there are

	id *requestID // unless a policy says otherwise
}

// Spec returns what the set was made from, with its defaults. It must not be changed.
func (s *Set) Spec() *Spec { return s.spec }

// Trusts reports whether a peer's word is taken about whom it forwards; see
// client_ip.trusted_proxies. An invalid address is a peer on a Unix socket.
func (s *Set) Trusts(peer netip.Addr) bool { return s.resolver.Trusts(peer) }

// Rules returns every rule of the set. That at i has the Index i.
func (s *Set) Rules() []*Rule { return s.rules }
