package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint"
)

// Input has the attributes of a request. Adapters fill it in.
type Input struct {
	// Method and Host are as received: "GET", "example.com:8080".
	Method, Host string
	// Path is decoded, like URL.Path. RawPath is the path as received if that differs, like
	// URL.RawPath, else "". Applications interpret some paths and methods in different ways. Limits
	// apply if any reading of the request matches; exemptions apply only if all readings match.
	Path, RawPath string
	// Peer is the address of the other end of the connection; invalid if it has none, as on a Unix
	// socket.
	Peer netip.Addr
	// Header has the values of the request's header fields by canonical name, like http.Header; nil
	// if there are none.
	Header interface{ Values(name string) []string }
	// Claims are facts about the caller that the application has verified, such as "user" and
	// "plan". Claim returns "" for a fact that the application does not know. Claims is nil if it
	// knows none.
	Claims interface{ Claim(name string) string }
	// Content gives access to the query and body of a request, for policies that derive request ids
	// from them or estimate usage from them. It is nil if the adapter does not see bodies: then no
	// id is derived, and usage is estimated by default values.
	Content interface {
		// Body returns the beginning of the body, at most the given number of bytes, and the length
		// of the whole body, negative if unknown. It is called at most once, before Digest.
		Body(most int64) (head []byte, length int64)
		// Digest returns a hash of the query and the body, or "" if no id should be derived from
		// the body or the body cannot be read. It is called at most once. The request is decided
		// even if its context has ended meanwhile: a client that does not send its body is charged
		// as well.
		Digest() string
	}
}

// Rule is a tier or a policy as it applies to the members of one tier: it says which requests are
// counted together and how they are limited. It must not be changed.
type Rule struct {
	// Policy is the name of the policy, or "" for the tier's own limits.
	Policy string
	// Tier is the name of the tier.
	Tier string
	// Limits count requests if Costs is false, and costs otherwise. Limits whose numbers come from
	// claims have the numbers of requests without the claims.
	Limits []stint.Limit
	Costs  bool
	// Claimed holds the limits as in the Spec, in the same order as Limits, if any number comes
	// from a claim; else nil.
	Claimed []Limit
	// Notify lists the shares of limits that are reported, in percent; nil if none are. See
	// [Rule.Notifies].
	Notify []int
	// Enforced is the share of subjects for which the rule is enforced: 1 is all of them, and 0
	// none, for a rule in shadow.
	Enforced float64
	// Contact tells callers denied by the rule where to ask for more, as text or a URL; "" if there
	// is none.
	Contact string
	// Index is the rule's index in [Set.Rules].
	Index int

	unit *unit
}

// Name returns the policy's name, or the tier's if there is no policy.
func (r *Rule) Name() string {
	if r.Policy != "" {
		return r.Policy
	}
	return r.Tier
}

// EnforcedFor reports whether the rule is enforced for a subject. The rule must be of a [Set].
func (r *Rule) EnforcedFor(subject string) bool { return r.unit.enforced(subject) }

// Outcome is the outcome of a request that was allowed.
type Outcome struct {
	// Status is the status of the response, as an HTTP status code.
	Status int
	// Bytes is the length of the response body.
	Bytes int64
	// Cost is the value of the response header that reports the true cost, if there was one.
	Cost string
}
