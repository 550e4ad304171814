package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
)

// New compiles a spec. Neither the spec nor anything it refers to may be changed afterwards. If the
// spec has mistakes, the error is a [*stint.InvalidError] that joins all of them, each as a
// [*Mistake].
func New(spec Spec) (*Set, error) {
	c := &compiler{spec: &spec, set: &Set{spec: &spec}}
	c.compile()
	if len(c.errs) > 0 {
		return nil, &stint.InvalidError{Err: errors.Join(c.errs...)}
	}
	return c.set, nil
}

// Mistake describes what is wrong with one key of a spec.
type Mistake struct {
	// Key is the path of the key in the configuration language, such as "tiers[0].match.path[1]".
	// It is "" if the mistake is in the spec as a whole.
	Key string
	// Message says what is wrong, and how to fix it.
	Message string
	// Given lists other keys that the mistake depends on. If the value of one of them could not be
	// read, the mistake may be spurious.
	Given []string
}

// Error returns the key and the message.
func (m *Mistake) Error() string {
	if m.Key == "" {
		return m.Message
	}
	return m.Key + ": " + m.Message
}

// compiler makes a set from a spec. It collects all mistakes instead of stopping at the first.
type compiler struct {
	spec       *Spec
	set        *Set
	identities map[string]*identity
	names      []string // sorted names of the identities; nil until first needed
	errs       []error
}

func (c *compiler) compile() {
	c.failure("failure", &c.spec.Failure)
	c.clientIP()
	c.claims()
	c.allIdentities()
	c.set.id = c.requestID("request_id", c.spec.RequestID, c.spec.RequestIDLife, 0)
	c.bans("bans", c.spec.Bans)
	c.contact("contact", c.spec.Contact)
	c.share("headers.retry_after_jitter", c.spec.Headers.Jitter)
	c.logged("log.admissions", c.spec.LogAdmissions)
	c.logged("log.denials", c.spec.LogDenials)
	if tiers, policies := len(c.spec.Tiers), len(c.spec.Policies); tiers > maxTiers || policies > maxPolicies {
		c.mistake("", "there are %d tiers and %d policies; want at most %d and %d: numbers that differ from customer to customer come from "+
			"a claim, as in {limit: 60/1m, claim: rpm, max: 10000}, or in Go from httplimit.WithLimits; exceptions for single customers are "+
			"overrides, as in stint limits set user:42 --policy api 500/1m --until friday", tiers, policies, maxTiers, maxPolicies)
		return
	}
	c.tiers()
	c.policies()
	c.patterns()
}

// These constants bound the size of a set, because a set has rules for every policy in every tier,
// and checks every request against every policy.
const (
	maxTiers    = 100
	maxPolicies = 1000
)

func (c *compiler) mistake(key, format string, args ...any) {
	c.mistakeGiven(nil, key, format, args...)
}

// mistakeGiven adds a mistake that also depends on the keys in given; see [Mistake.Given].
func (c *compiler) mistakeGiven(given []string, key, format string, args ...any) {
	c.errs = append(c.errs, &Mistake{Key: key, Message: fmt.Sprintf(format, args...), Given: given})
}

// mistakes adds each mistake in err for the given key. err may be nil.
func (c *compiler) mistakes(key string, err error) {
	for _, e := range contract.EachMistake(err) {
		c.mistake(key, "%v", e)
	}
}

const maxBudget = 10 * time.Second

func (c *compiler) failure(key string, f *stint.FailurePolicy) {
	switch {
	case f == nil:
	case f.Budget < 0:
		c.mistake(key+".budget", "a decision needs some time; want a duration such as 15ms")
	case f.Budget > maxBudget:
		c.mistake(key+".budget", "%v is too long for callers to wait; want at most %v", f.Budget, maxBudget)
	}
}

func (c *compiler) logged(key string, most *int) {
	if most != nil && *most < 0 {
		c.mistake(key, "%d; want 0 or more", *most)
	}
}

func (c *compiler) clientIP() {
	trusted, unix := c.networks("client_ip.trusted_proxies", c.spec.TrustedProxies)
	var err error
	c.set.resolver, err = clientip.New(clientip.Config{
		Trusted: trusted, TrustUnix: unix, Header: c.spec.ClientHeader,
		IPv4Prefix: c.bits("client_ip.ipv4_prefix", c.spec.IPv4Prefix, 32),
		IPv6Prefix: c.bits("client_ip.ipv6_prefix", c.spec.IPv6Prefix, 128),
	})
	if err != nil {
		c.mistake("client_ip.header", "%q is not the name of a header; want something like X-Forwarded-For", c.spec.ClientHeader)
	}
	c.spec.ClientHeader = http.CanonicalHeaderKey(cmp.Or(c.spec.ClientHeader, clientip.DefaultHeader))
}

// networks parses addresses, networks, and keywords such as "loopback". It also reports whether the
// list contains "unix".
func (c *compiler) networks(key string, list []string) (all []netip.Prefix, unix bool) {
	for i, entry := range list {
		prefixes, isUnix, err := clientip.ParsePrefix(entry)
		if err != nil {
			c.mistake(at(key, i, list), "%v", err)
		}
		all, unix = append(all, prefixes...), unix || isUnix
	}
	return all, unix
}

// bits checks n, the length of an address prefix, and returns it. If n is negative or greater than
// the maximum, bits adds a mistake and returns 0, which stands for the default.
func (c *compiler) bits(key string, n, most int) int {
	if n < 0 || n > most {
		c.mistake(key, "%d; want 1 to %d", n, most)
		return 0
	}
	return n
}

func (c *compiler) claims() {
	c.set.asserted = map[string]string{}
	for _, name := range sorted(c.spec.Claims) {
		key := "claims." + name
		c.nameOK(key, name)
		c.set.asserted[name] = c.field(key, c.spec.Claims[name])
	}
	c.spec.Claims = c.set.asserted
	if len(c.spec.Claims) > 0 && len(c.spec.TrustedProxies) == 0 {
		c.mistakeGiven([]string{"client_ip.trusted_proxies"}, "claims",
			"are accepted only from trusted proxies, and there are none; list them in client_ip.trusted_proxies")
	}
}

func (c *compiler) field(key, name string) string {
	if !syntax.IsToken(name) {
		c.mistake(key, "%q is not the name of a header; want something like X-User-ID", name)
	}
	return http.CanonicalHeaderKey(name)
}

// nameOK reports whether a name is valid in keys, labels and headers. If not, it adds a mistake.
func (c *compiler) nameOK(key, name string) bool {
	switch {
	case name == "":
		c.mistake(key, "is missing; want 1 to 64 letters, digits and _-.")
	case !syntax.IsShortName(name):
		c.mistake(key, "%q is not a valid name; want 1 to 64 letters, digits and _-.", name)
	default:
		return true
	}
	return false
}

// maxDerive is the maximum life of a derived id. Equal requests that are further apart in time
// count as different requests.
const maxDerive = 10 * time.Second

// requestID returns the settings for recognizing repeated requests, or nil if there are none. If a
// policy sets only RequestIDDerive, the header and the life come from the spec.
func (c *compiler) requestID(key, header string, life, derive time.Duration) *requestID {
	if derive != 0 && (derive < stint.MinWindow || derive > maxDerive || derive%time.Microsecond != 0) {
		c.mistake(key+".derive", "%v; want the time in which equal requests count as one, at most %v, such as 2s", derive, maxDerive)
	}
	if life != 0 {
		c.inWindow(key+".life", life)
	}
	switch {
	case header != "" || life != 0:
		return &requestID{header: c.field(key+".header", header), life: life, derive: derive}
	case derive == 0:
		return nil
	case c.set.id == nil:
		return &requestID{derive: derive}
	}
	return &requestID{header: c.set.id.header, life: c.set.id.life, derive: derive}
}

func (c *compiler) contact(key, text string) {
	if wrong := syntax.WrongContact(text); wrong != "" {
		c.mistake(key, "%s; want text such as %q, or a URL: http, https or mailto", wrong, "Write to support@example.com for more")
	}
}

// inWindow adds a mistake unless t could be the window of a limit. Stores cannot represent other
// durations.
func (c *compiler) inWindow(key string, t time.Duration) {
	if t < stint.MinWindow || t > stint.MaxWindow || t%time.Microsecond != 0 {
		c.mistake(key, "%v; want whole microseconds from %v to 366 days", t, stint.MinWindow)
	}
}

// maxBans is the maximum number of ban durations.
const maxBans = 16

func (c *compiler) bans(key string, b *stint.BanPolicy) {
	if b == nil || b.After == 0 {
		return
	}
	if b.After < 1 || b.After > stint.Resolution {
		c.mistake(key+".after", "%d; want 1 to %d", b.After, stint.Resolution)
	}
	c.inWindow(key+".within", b.Within)
	for i, d := range b.Durations {
		c.inWindow(fmt.Sprintf("%s.durations[%d]", key, i), d)
	}
	if len(b.Durations) == 0 || len(b.Durations) > maxBans {
		c.mistake(key+".durations", "there are %d; want 1 to %d, such as [1m, 5m, 1h, 24h]", len(b.Durations), maxBans)
	}
	if b.Forgive != 0 {
		c.inWindow(key+".forgive", b.Forgive)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
