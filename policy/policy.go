package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint"
)

// Input holds the attributes of a request. Adapters such as package httplimit fill it in.
type Input struct {
	// Method and Host are the method and the host as received, such as "GET" and
	// "example.com:8080".
	Method, Host string
	// Path is the decoded path, like URL.Path. RawPath is the path as received if it differs, like
	// URL.RawPath; otherwise it is "". Applications interpret some paths and methods in different
	// ways. Each interpretation is a reading of the request. A limit applies if any reading
	// matches. An exemption applies only if all readings match.
	Path, RawPath string
	// Peer is the address of the other end of the connection. It is invalid if the peer has no
	// address, as on a Unix socket.
	Peer netip.Addr
	// Header holds the values of the request's header fields by canonical name, like http.Header;
	// nil if there are none.
	Header interface{ Values(name string) []string }
	// Claims are facts about the caller that the application has verified, such as "user" and
	// "plan". The method Claim returns "" for a fact that the application does not know. Claims is
	// nil if the application knows no facts.
	Claims interface{ Claim(name string) string }
	// Content gives access to the query and body of a request. Policies derive request ids and
	// estimate usage from them. If Content is nil, because the adapter does not see bodies, no id
	// is derived, and usage is estimated by default values.
	Content interface {
		// Body returns the beginning of the body, up to the given number of bytes. It also returns
		// the length of the whole body, or a negative number if the length is unknown. It is called
		// at most once, before Digest.
		Body(most int64) (head []byte, length int64)
		// Digest returns a hash of the query and the body. It returns "" if the body cannot be read
		// or if no id should be derived from it. It is called at most once. If the context of the
		// request ends during the call, the request is still decided. Otherwise, a client could
		// avoid the charge by not sending its body.
		Digest() string
	}
}

// Rule holds the limits of a tier, or the limits of a policy for the requests of one tier. A Rule
// must not be changed.
type Rule struct {
	// Policy is the name of the policy, or "" for the tier's own limits.
	Policy string
	// Tier is the name of the tier.
	Tier string
	// Limits count requests if Costs is false, and costs otherwise. If the maximum of a limit comes
	// from a claim, Limits holds the maximum for requests without the claim.
	Limits []stint.Limit
	Costs  bool
	// Claimed holds the limits as in the Spec, in the same order as Limits. It is nil if no maximum
	// comes from a claim.
	Claimed []Limit
	// Notify lists the percentages at which the use of a limit is reported; nil if no use is
	// reported. See [Rule.Notifies].
	Notify []int
	// Enforced is the share of subjects for which the rule is enforced, from 0 (in shadow) to 1
	// (all).
	Enforced float64
	// Contact tells denied callers where to ask for more, as text or a URL. It is "" if there is
	// none.
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

// EnforcedFor reports whether the rule is enforced for a subject. The rule must come from a [Set].
func (r *Rule) EnforcedFor(subject string) bool { return r.unit.enforced(subject) }

// Outcome describes the response to a request that was allowed.
type Outcome struct {
	// Status is the status of the response, as an HTTP status code.
	Status int
	// Bytes is the length of the response body.
	Bytes int64
	// Cost is the value of the response header that reports the true cost, if there was one.
	Cost string
}
