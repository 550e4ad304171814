package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/redisurl"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/policy"
)

func (c *compiler) warnings() {
	proxies := c.doc.ClientIP.TrustedProxies
	for i, text := range proxies {
		if size := wide(text); size != "" {
			c.warn(at("client_ip.trusted_proxies", i, proxies), "%q is %s: anyone in it can set the client's address "+
				"and claims in headers; list only your own proxies", text, size)
		}
	}
	for _, name := range sorted(c.doc.Identities) {
		if claim := c.doc.Identities[name].Claim; claim != "" && c.listsClaims() {
			c.claimIsSet("identities."+name+".claim", claim)
		}
	}
	for i := range c.doc.Tiers {
		t, key := &c.doc.Tiers[i], item("tiers", i)
		c.userIsSet(key+".identity", t.Identity)
		c.limitClaims(key+".limits", t.Limits)
		c.limitClaims(key+".budget", t.Budget)
		c.oddMatch(key+".match", t.Match)
		c.oddMatch(key+".unless", t.Unless)
		if near, ok := messages.Nearest(t.Scope, []string{"route", "global"}); ok && near != t.Scope {
			c.warn(key+".scope", "%q names one count for all requests%s", t.Scope,
				messages.Hint(t.Scope, []string{near}))
		}
	}
	for i := range c.doc.Policies {
		p, key := &c.doc.Policies[i], item("policies", i)
		c.userIsSet(key+".identity", p.Identity)
		p.Limits.each(key+".limits", c.limitClaims)
		p.Budget.each(key+".budget", c.limitClaims)
		c.oddMatch(key+".match", p.Match)
		c.oddMatch(key+".unless", p.Unless)
		c.oddUsage(key, &c.spec.Policies[i])
		store := &c.config.Store
		if c.spec.Policies[i].RequestIDDerive != 0 && redisurl.Is(store.URL) && store.NameKeyFile == "" {
			c.warn(key+".request_id.derive", "Redis keeps a hash of the body, from which passwords and codes can be guessed; "+
				"do not use it on routes that take them, or set store.name_key_file")
		}
	}
	c.oddQuantities()
	if len(c.doc.Webhooks) > 0 && !c.notifies() {
		c.warn("webhooks", "nothing is posted: no tier and no policy has notify, such as notify: [80%%, 100%%]")
	}
	if c.config.Set != nil {
		c.chosenIdentities()
	}
	if c.doc.Gateway != nil {
		for i, r := range c.doc.Gateway.Routes {
			c.oddPaths(item("gateway.routes", i)+".path", r.Path)
		}
	}
}

func (c *compiler) notifies() bool {
	return slices.ContainsFunc(c.doc.Tiers, func(t tierDoc) bool { return len(t.Notify) > 0 }) ||
		slices.ContainsFunc(c.doc.Policies, func(p policyDoc) bool { return len(p.Notify) > 0 })
}

// listsClaims reports whether the configuration should list every claim: it should if it lists any,
// or if it configures a gateway, where only headers can set claims. Otherwise, the application or
// the callers of the API may pass claims that are not listed.
func (c *compiler) listsClaims() bool { return len(c.doc.Claims) > 0 || c.doc.Gateway != nil }

// userIsSet warns if the predefined identity "user" is used, and the configuration should list its
// claim but does not.
func (c *compiler) userIsSet(key string, identity list) {
	if _, redefined := c.doc.Identities["user"]; !redefined && c.listsClaims() && slices.Contains(identity, "user") {
		c.claimIsSet(key, "user")
	}
}

// limitClaims warns if the maximum of a limit comes from a claim that the configuration should list
// but does not.
func (c *compiler) limitClaims(key string, limits ruleLimits) {
	for i := range limits {
		if claim := limits[i].Claim; claim != "" && c.listsClaims() {
			c.claimIsSet(at(key, i, limits)+".claim", claim)
		}
	}
}

// each calls f with the limits that apply to all tiers, and then with those of each named tier. key
// is the key of l in the configuration.
func (l *tierLimits) each(key string, f func(key string, limits ruleLimits)) {
	f(key, l.All)
	for _, tier := range sorted(l.ByTier) {
		f(key+"."+tier, l.ByTier[tier])
	}
}

// claimIsSet warns if the configuration does not list the given claim.
func (c *compiler) claimIsSet(key, claim string) {
	if _, ok := c.doc.Claims[claim]; !ok && !c.lacks("claims."+claim) && len(c.warned) < maxMistakes {
		c.warn(key, `no header sets the claim %q; want one under claims, or claims: {%s: ""} if the application passes it%s`,
			claim, claim, messages.Hint(claim, sorted(c.doc.Claims)))
	}
}

func (c *compiler) oddMatch(key string, m *matchDoc) {
	if m == nil {
		return
	}
	c.oddPaths(key+".path", m.Path)
	for i, method := range m.Method {
		if syntax.IsToken(method) && method == strings.ToUpper(method) && !slices.Contains(methods, method) {
			c.warn(at(key+".method", i, m.Method), "%q is not an HTTP method%s", method,
				messages.Hint(method, methods))
		}
	}
	for _, claim := range sorted(m.Claim) {
		c.claimIsSet(key+".claim."+claim, claim)
	}
}

var (
	// foreignVariable matches a variable in the syntax of other routers: :id, <id>, <int:id>, [id].
	foreignVariable = regexp.MustCompile(`^(?::(\w+)\??|<(?:\w+:)?(\w+)>|\[(?:\.\.\.)?(\w+)\])$`)
	// foreignPattern matches regular expression syntax.
	foreignPattern = regexp.MustCompile(`\.[*+]|[\\^$()|]`)
)

// oddPaths warns about paths that use the pattern syntax of other programs, because they are
// matched literally.
func (c *compiler) oddPaths(key string, paths list) {
	for i, text := range paths {
		key := at(key, i, paths)
		segments, odd := strings.Split(text, "/"), ""
		for k, segment := range segments {
			if name := foreignVariable.FindStringSubmatch(segment); name != nil {
				segments[k], odd = "{"+name[1]+name[2]+name[3]+"}", segment
			}
		}
		switch {
		case odd != "":
			c.warn(key, "%q is matched literally in %q; write %s", odd, text, strings.Join(segments, "/"))
		case foreignPattern.MatchString(text):
			c.warn(key, "%q is matched literally, but looks like a regular expression; "+
				"want something like /users/{id}, /static/** or /**/*.css", text)
		}
	}
}

// The minimum prefix lengths of trusted proxy networks. Networks with shorter prefixes are too
// wide.
const (
	fewBits4 = 8
	fewBits6 = 16
)

// wide returns a description of a network that is too wide for trusted proxies, or "" for any
// other.
func wide(text string) string {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return ""
	}
	bits, least, all := p.Bits(), fewBits6, "every IPv6 address"
	if a := p.Addr().Unmap(); a.Is4() {
		bits, least, all = bits-(p.Addr().BitLen()-32), fewBits4, "every IPv4 address"
	}
	switch private := netip.MustParsePrefix("fc00::/7"); {
	case bits >= least || private.Contains(p.Addr()) && bits >= private.Bits():
		return ""
	case bits <= 0:
		return all
	}
	return "a very wide range"
}

// methods are the HTTP methods registered with IANA, and PURGE, which caches use.
var methods = strings.Fields(`GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY PURGE
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF
	MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE
	UPDATEREDIRECTREF VERSION-CONTROL`)

const (
	// leastPrice is the lowest price per million tokens that causes no warning. At a lower price, a
	// request of a thousand tokens costs less than one unit.
	leastPrice = 1000
	// leastHold is the shortest hold that causes no warning. A shorter hold may expire during a
	// pause of the process or the store.
	leastHold = 10 * time.Second
)

// oddUsage warns if a price is so low that its unit is probably too large, or if the hold is too
// short.
func (c *compiler) oddUsage(key string, p *policy.Policy) {
	if p.Usage == nil {
		return
	}
	for _, model := range sorted(p.Usage.Prices) {
		price := p.Usage.Prices[model]
		if most := max(price.Input, price.Output); most > 0 && most < leastPrice {
			c.warn(key+".usage.prices."+model, "a million tokens cost at most %d, so most requests cost 1, rounded up; "+
				"prices are per million tokens in units of the budget: 2500000 for 2.50 dollars, if 1 is a millionth of a dollar",
				most)
		}
	}
	if p.Hold > 0 && p.Hold < leastHold {
		c.warn(key+".hold", "%v: if the process or the store pauses for longer, the estimates of responses under way are "+
			"given back; want %v or more, such as 5m", p.Hold, leastHold)
	}
}

// oddQuantities warns about budgets whose names are similar but not equal to the name of a
// quantity, such as input_token instead of input_tokens. Such budgets count all tokens.
func (c *compiler) oddQuantities() {
	if !slices.ContainsFunc(c.spec.Policies, func(p policy.Policy) bool { return p.Usage != nil }) {
		return
	}
	look := func(key string, budget ruleLimits) {
		for i := range budget {
			name := budget[i].Limit.Name
			if near, ok := messages.Nearest(name, tokens.Quantities); ok && near != name {
				c.warn(at(key, i, budget), "%q counts all tokens%s", name, messages.Hint(name, tokens.Quantities))
			}
		}
	}
	for i := range c.doc.Tiers {
		look(item("tiers", i)+".budget", c.doc.Tiers[i].Budget)
	}
	for i := range c.doc.Policies {
		c.doc.Policies[i].Budget.each(item("policies", i)+".budget", look)
	}
}
