package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint"
)

// Input is what is known of a request. Adapters fill it in.
type Input struct {
	// Method and Host as they came: "GET", "example.com:8080".
	Method, Host string
	// Path is decoded, as URL.Path is. RawPath is as it came, as URL.RawPath is, where that
	// differs; else "". Applications differ in what they make of some paths and methods. What
	// limits any reading of a request applies to it, and what exempts it has to exempt all of them.
	Path, RawPath string
	// Peer is the other end of the connection; invalid if it has no address, as on a Unix socket.
	Peer netip.Addr
	// Header has the values of the request's header fields, by their canonical names, as
	// http.Header does; nil if there are none.
	Header interface{ Values(name string) []string }
	// Claims are facts about the caller that the application has made sure of, such as "user" and
	// "plan"; "" is a fact that it does not know. Nil if it knows nothing.
	Claims interface{ Claim(name string) string }
	// Content is what a request says beyond its path, for policies that derive request ids from it,
	// or estimate from it what it uses; nil if the adapter does not see bodies: then no id is
	// derived, and the default is the estimate.
	Content interface {
		// Body returns the beginning of the body, at most so many bytes of it, and the length of
		// all of it; below 0 if that is not known. It is called once at most, before Digest.
		Body(most int64) (head []byte, length int64)
		// Digest returns a hash of the query and the body, or "" if the body is not one to derive
		// an id from or cannot be read. It is called once at most. The request is decided even if
		// its context has ended meanwhile: who does not send a body is charged all the same.
		Digest() string
	}
}

// Rule is a tier or a policy as it applies to the members of one tier: what is counted together and
// how it is limited. It must not be changed.
type Rule struct {
	// Policy is the name of the policy, or "" for the tier's own limits.
	Policy string
	// Tier is the name of the tier.
	Tier string
	// Limits count requests if Costs is false, and costs otherwise. Their numbers are those of
	// requests that bring none.
	Limits []stint.Limit
	Costs  bool
	// Claimed are the limits as the Spec has them, in the same order, if the number of any comes
	// from a claim; else nil.
	Claimed []Limit
	// Notify are the shares of limits that are reported, in percent; nil if none are. See
	// [Rule.Notifies].
	Notify []int
	// Enforced is the share of subjects for whom the rule has consequences: 1 is all of them, and 0
	// none, for a rule in shadow.
	Enforced float64
	// Contact is where a caller denied by the rule can ask for more, a text or a URL; "" if there
	// is none.
	Contact string
	// Index is that of the rule in [Set.Rules].
	Index int

	unit *unit
}

// Name is the policy's name, or the tier's.
func (r *Rule) Name() string {
	if r.Policy != "" {
		return r.Policy
	}
	return r.Tier
}

// Outcome is what became of a request that was allowed.
type Outcome struct {
	// Status is that of the response, in terms of HTTP.
	Status int
	// Bytes is the length of its body.
	Bytes int64
	// Cost is the value of the response header that says the true cost, if there was one.
	Cost string
}
