package config

import (
	"cmp"
	"maps"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/policy"
)

// This file translates the sections that package policy understands. It reports only mistakes that
// package policy cannot find. For example, it reports some keys that are set to zero, because
// package policy treats a zero field of a [policy.Spec] as not set.

func (c *compiler) clientIP() {
	doc := &c.doc.ClientIP
	c.notZero("client_ip.ipv4_prefix", doc.IPv4Prefix, "0; want 1 to 32")
	c.notZero("client_ip.ipv6_prefix", doc.IPv6Prefix, "0; want 1 to 128")
	c.spec.TrustedProxies, c.spec.ClientHeader = doc.TrustedProxies, doc.Header
	c.spec.IPv4Prefix, c.spec.IPv6Prefix = int(doc.IPv4Prefix), int(doc.IPv6Prefix)
}

func (c *compiler) notZero(key string, value int64, message string) {
	if value == 0 && c.has(key) {
		c.mistake(key, "%s", message)
	}
}

// claims translates the claims that proxies assert in headers. It omits claims whose header name is
// empty, because the application passes these claims.
func (c *compiler) claims() {
	c.spec.Claims = maps.Clone(c.doc.Claims)
	maps.DeleteFunc(c.spec.Claims, func(_, header string) bool { return header == "" })
}

func (c *compiler) identities() {
	c.spec.Identities = map[string]policy.Identity{}
	for name, doc := range c.doc.Identities {
		if c.lacks("identities." + name) {
			// The identity could not be read. Assume that it is a claim, which some requests lack.
			doc.Claim = cmp.Or(doc.Claim, name)
		}
		c.spec.Identities[name] = policy.Identity{
			Claim: doc.Claim, Header: doc.Header, Cookie: doc.Cookie, All: doc.All, Type: doc.Type, Plain: doc.Plain,
		}
	}
}

func (c *compiler) requestID(key string, doc *requestIDDoc) (header string, life, derive time.Duration) {
	if doc == nil {
		return "", 0, 0
	}
	if doc.Header == "" && doc.Life == 0 && !c.has(key+".derive") {
		c.mistake(key+".header", "is missing; want the name of a header, such as Idempotency-Key")
	}
	c.notZero(key+".life", int64(doc.Life), "0s; want whole microseconds from "+stint.MinWindow.String()+" to 366 days")
	c.notZero(key+".derive", int64(doc.Derive), "0s; want the time in which equal requests count as one, such as 2s")
	return doc.Header, time.Duration(doc.Life), time.Duration(doc.Derive)
}

const defaultForgive = duration(24 * time.Hour)

func (c *compiler) bans(key string, doc *bansDoc) *stint.BanPolicy {
	switch {
	case doc == nil:
		return nil
	case doc.After == 0:
		for _, k := range []string{"within", "durations", "forgive"} {
			if c.has(key+"."+k) && !c.has(key+".after") {
				c.mistake(key+"."+k, "has no effect without after: the number of denials that leads to a ban")
			}
		}
		return &stint.BanPolicy{}
	}
	forgive := defaultForgive
	if doc.Forgive != nil {
		forgive = *doc.Forgive
	}
	b := &stint.BanPolicy{After: int(doc.After), Within: time.Duration(doc.Within), Forgive: time.Duration(forgive)}
	for _, d := range doc.Durations {
		b.Durations = append(b.Durations, time.Duration(d))
	}
	return b
}

func (c *compiler) tiers() {
	for i := range c.doc.Tiers {
		doc, key := &c.doc.Tiers[i], item("tiers", i)
		c.spec.Tiers = append(c.spec.Tiers, policy.Tier{
			Name:     doc.Name,
			Match:    matchOf(doc.Match),
			Unless:   matchOf(doc.Unless),
			Identity: doc.Identity,
			Scope:    doc.Scope,
			Limits:   doc.Limits,
			Budget:   doc.Budget,
			Notify:   doc.Notify,
			Shadow:   doc.Shadow,
			Rollout:  doc.Rollout.share(),
			Bans:     c.bans(key+".bans", doc.Bans),
			Failure:  c.failure(key+".failure", doc.Failure),
			Contact:  doc.Contact,
		})
	}
}

func (c *compiler) policies() {
	for i := range c.doc.Policies {
		doc, key := &c.doc.Policies[i], item("policies", i)
		p := policy.Policy{
			Name:       doc.Name,
			Match:      matchOf(doc.Match),
			Unless:     matchOf(doc.Unless),
			Skip:       doc.Skip,
			Identity:   doc.Identity,
			Per:        doc.Per,
			Limits:     doc.Limits.All,
			TierLimits: plain(doc.Limits.ByTier),
			Budget:     doc.Budget.All,
			TierBudget: plain(doc.Budget.ByTier),
			Notify:     doc.Notify,
			Cost:       c.cost(key+".cost", doc.Cost),
			Costs:      doc.Costs,
			Hold:       time.Duration(doc.Hold),
			Refund:     doc.Refund,
			Shadow:     doc.Shadow,
			Rollout:    doc.Rollout.share(),
			Failure:    c.failure(key+".failure", doc.Failure),
			Contact:    doc.Contact,
		}
		c.notZero(key+".hold", int64(doc.Hold), "0s; want the longest time between two heartbeats, such as 5m")
		p.RequestID, p.RequestIDLife, p.RequestIDDerive = c.requestID(key+".request_id", doc.RequestID)
		p.Usage = c.usage(key+".usage", doc.Usage)
		c.settle(key+".settle", doc.Settle, &p)
		c.spec.Policies = append(c.spec.Policies, p)
	}
}

func matchOf(doc *matchDoc) *policy.Match {
	if doc == nil {
		return nil
	}
	return &policy.Match{
		Host: doc.Host, Path: doc.Path, Method: doc.Method, Network: doc.Network,
		Header: plain(doc.Header), Claim: plain(doc.Claim),
	}
}

// plain converts a map of lists to the type that package policy uses. It returns nil for nil.
func plain[E any, L ~[]E](lists map[string]L) map[string][]E {
	if lists == nil {
		return nil
	}
	values := map[string][]E{}
	for name, list := range lists {
		values[name] = list
	}
	return values
}

func (c *compiler) cost(key string, doc *costDoc) *policy.Cost {
	switch {
	case doc == nil:
		return nil
	case doc.Units != nil:
		return &policy.Cost{Units: *doc.Units}
	case doc.Header == "":
		c.mistake(key, "want a number, or a header with the number")
		return &policy.Cost{Units: 1}
	}
	return &policy.Cost{Units: or(doc.Default, 1), Header: doc.Header, Min: or(doc.Min, 1), Max: doc.Max}
}

func or(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// These constants are the values of the key "missing", which sets what to charge for streams that
// do not report their usage.
const (
	missingEstimate = "estimate"
	missingEvents   = "events"
)

func (c *compiler) usage(key string, doc *usageDoc) *policy.TokenUsage {
	if doc == nil {
		return nil
	}
	u := &policy.TokenUsage{Preset: doc.Preset, MaxOutput: doc.MaxOutput, Choices: doc.Choices, Model: doc.Model,
		Input: doc.Input, Output: doc.Output, Cached: doc.Cached, DefaultOutput: doc.DefaultOutput,
		BytesPerToken: doc.BytesPerToken, Body: int64(doc.Body), Inject: doc.InjectUsage}
	c.notZero(key+".default_output", u.DefaultOutput, "0; want at least 1")
	c.notZero(key+".bytes_per_token", u.BytesPerToken, "0; want at least 1")
	c.notZero(key+".body", u.Body, "0; want the size of a request's body to read, such as 64KiB")
	switch doc.Missing {
	case "", missingEstimate:
	case missingEvents:
		u.CountEvents = true
	default:
		known := []string{missingEstimate, missingEvents}
		c.mistake(key+".missing", "%q; %s", doc.Missing, messages.Want(doc.Missing, known))
	}
	if doc.Weights != nil {
		u.Weights = new(doc.Weights.rates(1))
	}
	for model, price := range doc.Prices {
		if u.Prices == nil {
			u.Prices = map[string]policy.Rates{}
		}
		u.Prices[model] = price.rates(0)
		if price == (ratesDoc{}) {
			c.mistake(key+".prices."+model, "no price; want input and output, per million tokens, "+
				"as in {input: 2500000, output: 10000000}")
		}
	}
	return u
}

// rates returns the rate for each kind of token. Input and Output default to the given rate, and
// Cached defaults to Input.
func (d *ratesDoc) rates(otherwise int64) policy.Rates {
	input := or(d.Input, otherwise)
	return policy.Rates{Input: input, Output: or(d.Output, otherwise), Cached: or(d.Cached, input)}
}

func (c *compiler) settle(key string, doc *settleDoc, p *policy.Policy) {
	if doc == nil {
		return
	}
	p.SettleHeader, p.SettleBytes, p.MaxDebt = doc.Header, int64(doc.Bytes), doc.MaxDebt
	c.notZero(key+".max_debt", p.MaxDebt, "0; want at least 1")
	if doc.Header == "" && doc.Bytes == 0 && !c.has(key+".max_debt") {
		c.mistake(key, "want either header or bytes")
	}
}
