package config

import (
	"cmp"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// counted is a policy as it applies to one tier, or the tier itself in the form of a policy. Limits
// and Budget are those for the tier. If inherits is true, the policy has no identity of its own,
// and Identity is the tier's.
type counted struct {
	policy.Policy
	inherits bool
}

func countedBy(t *policy.Tier) *counted {
	return &counted{Policy: policy.Policy{Match: t.Match, Unless: t.Unless, Identity: t.Identity, Limits: t.Limits,
		Budget: t.Budget, Shadow: t.Shadow, Rollout: t.Rollout}}
}

func countedByPolicy(p *policy.Policy, t *policy.Tier) *counted {
	n := &counted{Policy: *p}
	n.Limits, n.Budget, _ = p.LimitsFor(t.Name)
	if len(n.Identity) == 0 {
		n.Identity, n.inherits = t.Identity, true
	}
	return n
}

// denies reports whether n has limits and enforces them for at least some subjects.
func (n *counted) denies() bool {
	shadow := n.Shadow || n.Rollout != nil && *n.Rollout == 0
	return !shadow && len(n.Limits)+len(n.Budget) > 0
}

// isRoute reports whether n applies only to some paths, methods or hosts.
func (n *counted) isRoute() bool {
	m := n.Match
	return m != nil && len(m.Path)+len(m.Method)+len(m.Host) > 0
}

// class is the set of requests that meet all the matches and have all the identities listed in has.
type class struct {
	matches []*policy.Match
	has     []string
}

// maxComparisons is the maximum number of pairs of tiers and policies that are compared. That many
// comparisons take a few tenths of a second. In a configuration with more pairs, some limits are
// not checked.
const maxComparisons = 200_000

// chosenIdentities checks each tier and policy that counts by a header or cookie, because clients
// choose these values; see [compiler.chosenIdentity].
func (c *compiler) chosenIdentities() {
	warned := map[string]bool{}
	left := maxComparisons
	for i := range c.spec.Tiers {
		t := &c.spec.Tiers[i]
		all := []*counted{countedBy(t)}
		keys := []string{item("tiers", i)}
		for k := range c.spec.Policies {
			n, key := countedByPolicy(&c.spec.Policies[k], t), item("policies", k)
			if n.inherits {
				key = keys[0]
			}
			all, keys = append(all, n), append(keys, key)
		}
		// others holds the tiers and policies that enforce limits and whose first identity clients
		// cannot choose.
		others := slices.DeleteFunc(slices.Clone(all), func(n *counted) bool {
			return !n.denies() || len(n.Identity) == 0 || c.chosen(n.Identity[0]) != ""
		})
		for k, n := range all {
			key := keys[k] + ".identity"
			byChoice := slices.ContainsFunc(n.Identity, func(name string) bool { return c.chosen(name) != "" })
			if !n.denies() || warned[key] || !byChoice {
				continue
			}
			if left -= len(others); left < 0 {
				return
			}
			warned[key] = c.chosenIdentity(key, t, n, others)
		}
	}
}

// chosenIdentity warns if clients can evade the limits of n by choosing the value of a header or
// cookie, because no policy or tier in others limits the same requests by an identity that clients
// cannot choose. It also warns if a client can get another client banned by sending the other
// client's value. It reports whether it warned.
func (c *compiler) chosenIdentity(key string, t *policy.Tier, n *counted, others []*counted) (warned bool) {
	requests := class{matches: []*policy.Match{t.Match, n.Match}}
	if len(t.Identity) == 1 {
		requests.has = c.parts(t.Identity[0])
	}
	bans := cmp.Or(t.Bans, c.spec.Bans)
	for _, name := range n.Identity {
		these := class{requests.matches, slices.Concat(requests.has, c.parts(name))}
		if chosen := c.chosen(name); chosen != "" && !slices.ContainsFunc(others, func(other *counted) bool {
			return c.holds(other, n, &these)
		}) {
			c.warn(key, "clients choose the value of %s, and each new value starts a new count; count the same requests "+
				"by address too, in a policy with identity: ip, or by a claim that is verified", chosen)
			warned = true
		}
		if header := c.public(name); header != "" && bans != nil && bans.After > 0 {
			c.warn(key, "if values of the header %s are not secret, %d denied requests with another client's value ban its owner; "+
				"use a claim that is verified, add ip to the identity (all), or set bans: {after: 0} in the tier", header, bans.After)
			warned = true
		}
		if c.certain(name, &requests) {
			break
		}
	}
	return warned
}

// parts returns the simple identities that an identity consists of.
func (c *compiler) parts(name string) []string {
	if all := c.spec.Identities[name].All; len(all) > 0 {
		return all
	}
	return []string{name}
}

// chosen returns a description of the first header or cookie in an identity, or "" if there is
// none.
func (c *compiler) chosen(name string) string {
	for _, part := range c.parts(name) {
		switch id := c.spec.Identities[part]; {
		case id.Header != "":
			return "the header " + id.Header
		case id.Cookie != "":
			return "the cookie " + id.Cookie
		}
	}
	return ""
}

// public returns a header of an identity if the identity consists only of headers whose values
// might not be secret. Otherwise it returns "". Cookies count as secret, because browsers hide them
// from other sites.
func (c *compiler) public(name string) (header string) {
	for _, part := range c.parts(name) {
		header = c.spec.Identities[part].Header
		switch strings.ToLower(header) {
		case "", "authorization", "proxy-authorization":
			return ""
		}
	}
	return header
}

// certain reports whether every request in the class has the identity with the given name.
func (c *compiler) certain(name string, these *class) bool {
	return !slices.ContainsFunc(c.parts(name), func(part string) bool {
		return part != "ip" && part != "everyone" && !slices.Contains(these.has, part)
	})
}

// holds reports whether the limits of other also apply to the requests that n counts, whatever
// headers and cookies clients send. n and other must be for the same tier. If n has its own
// identity and covers only some routes, and other covers all routes, other must also allow no more
// than n.
func (c *compiler) holds(other, n *counted, these *class) bool {
	if n.limitsRate() && !other.limitsRate() || !c.covers(other, n, these) {
		return false
	}
	if slices.ContainsFunc(other.Per, func(what string) bool {
		return !slices.Contains([]string{"method", "host", "route"}, what) && !slices.Contains(n.Per, what)
	}) {
		return false
	}
	for _, name := range other.Identity {
		if c.chosen(name) != "" {
			return false
		}
		if c.certain(name, these) {
			break
		}
	}
	return other.isRoute() || n.inherits || !n.isRoute() ||
		slower(other.Limits, n.Limits) && slower(other.Budget, n.Budget)
}

// limitsRate reports whether n limits a rate. Concurrency limits do not.
func (n *counted) limitsRate() bool {
	rate := func(l policy.Limit) bool { return l.Limit.Algorithm != stint.AlgorithmConcurrency }
	return slices.ContainsFunc(n.Limits, rate) || slices.ContainsFunc(n.Budget, rate)
}

// slower reports whether each limit in others has a counterpart in limits that allows no more in
// the long run. If the maximum of a limit in limits comes from a claim, slower uses the largest
// value that the claim may have. It ignores concurrency limits.
func slower(limits, others []policy.Limit) bool {
	return !slices.ContainsFunc(others, func(other policy.Limit) bool {
		m := &other.Limit
		return m.Algorithm != stint.AlgorithmConcurrency && !slices.ContainsFunc(limits, func(limit policy.Limit) bool {
			l := limit.Largest()
			hiL, loL := bits.Mul64(uint64(l.Max), uint64(m.Window))
			hiM, loM := bits.Mul64(uint64(m.Max), uint64(l.Window))
			return l.Algorithm != stint.AlgorithmConcurrency && (hiL < hiM || hiL == hiM && loL <= loM)
		})
	})
}

// covers reports whether other applies to every request in the class that n applies to. It ignores
// exceptions by claim or network, because clients cannot choose their claims and networks.
func (c *compiler) covers(other, n *counted, these *class) bool {
	if u := other.Unless; u != nil && len(u.Claim)+len(u.Network) == 0 && !reflect.DeepEqual(u, n.Unless) {
		return false
	}
	m := other.Match
	if m == nil {
		return true
	}
	fits := func(values []string, has func(part string) bool, of func(*policy.Match) []string) bool {
		return slices.Contains(values, "*") && slices.ContainsFunc(these.has, has) ||
			these.narrower(values, of, fitsValue)
	}
	for header, values := range m.Header {
		has := func(part string) bool {
			id := c.spec.Identities[part]
			return strings.EqualFold(id.Header, header) || id.Cookie != "" && strings.EqualFold(header, "Cookie")
		}
		if !fits(values, has, func(m *policy.Match) []string { return m.Header[header] }) {
			return false
		}
	}
	for claim, values := range m.Claim {
		has := func(part string) bool { return c.claimOf(part) == claim }
		if !fits(values, has, func(m *policy.Match) []string { return m.Claim[claim] }) {
			return false
		}
	}
	return these.narrower(m.Path, func(m *policy.Match) []string { return m.Path }, fitsPath) &&
		these.narrower(m.Method, func(m *policy.Match) []string { return m.Method }, fitsMethod) &&
		these.narrower(m.Host, func(m *policy.Match) []string { return m.Host }, fitsHost) &&
		these.narrower(m.Network, func(m *policy.Match) []string { return m.Network }, fitsValue)
}

// claimOf returns the claim that determines an identity, or "" if no claim does.
func (c *compiler) claimOf(name string) string {
	if _, ok := c.spec.Identities[name]; !ok && name == "user" {
		return name
	}
	return c.spec.Identities[name].Claim
}

// narrower reports whether a match of the class accepts only values that fit one of the patterns.
// The values that a match m accepts are of(m). If there are no patterns, narrower returns true.
func (r *class) narrower(
	patterns []string, of func(*policy.Match) []string, fits func(pattern, text string) bool,
) bool {
	return len(patterns) == 0 || slices.ContainsFunc(r.matches, func(m *policy.Match) bool {
		return m != nil && len(of(m)) > 0 && !slices.ContainsFunc(of(m), func(text string) bool {
			return !slices.ContainsFunc(patterns, func(pattern string) bool { return fits(pattern, text) })
		})
	})
}

func fitsValue(pattern, text string) bool { return pattern == "*" || pattern == text }

func fitsMethod(pattern, text string) bool {
	return pattern == text || pattern == "GET" && text == "HEAD"
}

func fitsHost(pattern, text string) bool {
	under, all := strings.CutPrefix(pattern, "*")
	return strings.EqualFold(pattern, text) || all && strings.HasSuffix(strings.ToLower(text), strings.ToLower(under))
}

// fitsPath reports whether every path that matches the pattern in text also matches pattern. It may
// return false if this cannot be determined. In patterns, {name} and * stand for any segment, and
// ** for any number of segments.
func fitsPath(pattern, text string) bool {
	segments := func(path string) []string {
		return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	}
	p, q := segments(pattern), segments(text)
	anyOne := func(segment string) bool { return segment == "*" || strings.HasPrefix(segment, "{") }
	for len(p) > 0 && p[0] != "**" {
		if len(q) == 0 || q[0] == "**" || p[0] != q[0] && !anyOne(p[0]) {
			return false
		}
		p, q = p[1:], q[1:]
	}
	for len(p) > 0 && p[len(p)-1] != "**" {
		last := len(q) - 1
		if last < 0 || q[last] == "**" || p[len(p)-1] != q[last] && !anyOne(p[len(p)-1]) {
			return false
		}
		p, q = p[:len(p)-1], q[:last]
	}
	return len(p) > 0 || len(q) == 0
}
