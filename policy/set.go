package policy

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/pathpattern"
)

// Set is a valid set of policies, made by [New]. It is immutable and safe for concurrent use.
type Set struct {
	spec  *Spec
	rules []*Rule

	resolver *clientip.Resolver
	asserted map[string]string
	tiers    []*tier
	all      []*policy // all policies, in the order of the spec
	exempt   []*policy // policies with Skip
	policies []*policy // policies without Skip
	methods  []string  // methods in conditions; all known methods if a policy counts per method
	patterns []patternUse
	endings  []*pathpattern.Pattern // patterns outside exemptions that depend on how a path ends
	upper    bool                   // whether a pattern has upper-case letters
	chosen   []*identity            // identities by header or cookie, whose values callers choose
	cookies  []string               // names of the cookies in chosen

	identities int // number of identities

	id *requestID // from the spec; used if no matching policy has one
}

// made reports whether [New] has made the set. The set may be nil.
func (s *Set) made() bool { return s != nil && s.spec != nil }

// Spec returns the spec that the set was made from, with defaults filled in. The spec must not be
// changed.
func (s *Set) Spec() *Spec { return s.spec }

// Trusts reports whether a peer is trusted to name the client of a request; see
// [Spec.TrustedProxies]. An invalid address stands for a peer on a Unix socket.
func (s *Set) Trusts(peer netip.Addr) bool { return s.resolver.Trusts(peer) }

// Rules returns every rule of the set. The rule at index i has Index i.
func (s *Set) Rules() []*Rule { return s.rules }

// patternUse is a pattern of a set, with the attributes by which its policy counts requests
// separately.
type patternUse struct {
	*pathpattern.Pattern
	per []string
}

// fitting returns a string that encodes which of the set's patterns a reading fits, and the values
// of the path variables by which requests are counted separately. Readings with equal strings are
// decided alike.
func (s *Set) fitting(r *reading) string {
	var b []byte
	for i := range s.patterns {
		p := &s.patterns[i]
		if !r.fits(p.Pattern) {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i))
		for _, name := range p.per {
			if value, ok := p.Value(r.path, name); ok {
				b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
			}
		}
	}
	return string(b)
}

// endingMatters reports whether some pattern in s.endings fits a path only without the ending of
// its last segment, such as ".json". The second argument is the path without that ending. If
// endingMatters reports false, the second path is not a reading, because a needless reading could
// prevent an exemption: for example, an exemption for /static/*.css applies only if all readings
// end in .css.
func (s *Set) endingMatters(path, without string, fits func(*pathpattern.Pattern, string) bool) bool {
	return slices.ContainsFunc(s.endings, func(p *pathpattern.Pattern) bool {
		return fits(p, without) && !fits(p, path)
	})
}
