package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/words"
)

// compiler turns a document into a set. It reports every mistake that it finds to the reader, and goes on.
type compiler struct {
	*reader
	doc        *document
	set        *Set
	identities map[string]*identity
}

// compile returns the set that a document describes. It is of use only if no mistakes were found.
func compile(doc *document, r *reader) *Set {
	c := &compiler{reader: r, doc: doc, set: &Set{judge: &judge{}}}
	c.store()
	c.set.failure = *c.failure("failure", doc.Failure, &stint.FailurePolicy{})
	c.clientIP()
	c.claims()
	c.allIdentities()
	c.set.id = c.requestID("request_id", doc.RequestID)
	c.headers()
	c.outbound()
	c.gateway()
	bans := c.bans("bans", doc.Bans)
	if len(doc.Tiers) > maxTiers || len(doc.Policies) > maxPolicies {
		c.mistake("", "there are %d tiers and %d policies; want at most %d and %d", len(doc.Tiers), len(doc.Policies), maxTiers, maxPolicies)
		return c.set
	}
	c.tiers(bans)
	c.policies()
	return c.set
}

// Bounds on a configuration: it has a rule for every policy in every tier, and every request looks at them.
const (
	maxTiers    = 100
	maxPolicies = 1000
)

// mistakes reports every error that was joined, each by itself.
func (c *compiler) mistakes(key string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			c.mistakes(key, e)
		}
		return
	}
	c.mistake(key, "%s", strings.TrimPrefix(err.Error(), "clientip: "))
}

func (c *compiler) store() {
	s := Store{
		URL: c.doc.Store.URL, Prefix: c.doc.Store.Prefix, Memory: int64(c.doc.Store.Memory),
		NameKeyFile:         c.file("store.name_key_file", c.doc.Store.NameKeyFile),
		PreviousNameKeyFile: c.file("store.previous_name_key_file", c.doc.Store.PreviousNameKeyFile),
	}
	if s.URL == "" {
		s.URL = "memory"
	}
	if s.URL != "memory" && !isRedisURL(s.URL) { // not shown: it may hold a password
		c.mistake("store.url", `want "memory", or a URL such as redis://host:6379/0 or rediss://user:password@host:6379/0`)
	}
	if strings.ContainsAny(s.Prefix, "{}: \t\r\n") {
		c.mistake("store.prefix", "%q has a brace, colon or space in it, which keys use for themselves", s.Prefix)
	}
	switch {
	case s.Memory == 0:
	case s.URL != "memory":
		c.mistake("store.memory", "is for the store in memory, and url names a Redis; the memory for decisions without it is failure.memory")
	case s.Memory < MinStoreMemory:
		c.mistake("store.memory", "%d bytes hold next to nothing; want 1MiB or more", s.Memory)
	}
	if s.NameKeyFile != "" && c.doc.Store.URL == "memory" { // left out, --store may name a Redis
		c.mistake("store.name_key_file", "is for names in Redis, and url is memory, which keeps no names anywhere else; want a Redis, or no name_key_file")
	}
	if s.NameKeyFile == "" && s.PreviousNameKeyFile != "" {
		c.mistake("store.previous_name_key_file", "there is no name_key_file that replaces it; to go on with this key call it name_key_file")
	}
	c.set.store = s
}

// file returns the path of a file that a key names. A relative one is so to the directory of the file with the key.
func (c *compiler) file(key, path string) string {
	if path == "" {
		if c.has(key) {
			c.mistake(key, "want the path of a file")
		}
		return ""
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.files[c.nearest(key).file].name), path)
}

// maxBudget is the longest that a decision may take.
const maxBudget = 10 * time.Second

// isRedisURL reports whether a text can be the URL of a Redis.
func isRedisURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return false
	}
	_, err = strconv.ParseUint("0"+strings.TrimPrefix(u.Path, "/"), 10, 16) // the number of a database, or none
	return err == nil
}

// failure returns what a section says, and what it leaves out from the outer one.
func (c *compiler) failure(key string, doc *failureDoc, outer *stint.FailurePolicy) *stint.FailurePolicy {
	if doc == nil {
		return outer
	}
	f := *outer
	if doc.Mode != nil {
		f.Mode = stint.FailureMode(*doc.Mode)
	}
	if doc.Budget > 0 {
		f.Budget = time.Duration(doc.Budget)
	} else if c.has(key + ".budget") {
		c.mistake(key+".budget", "a decision needs some time; want something like 15ms")
	}
	if f.Budget > maxBudget {
		c.mistake(key+".budget", "nobody waits %v for a rate limit; want at most %v", f.Budget, maxBudget)
	}
	if doc.Mode == nil && doc.Budget == 0 && doc.Instances == 0 && doc.Memory == 0 && !c.has(key+".mode") && !c.has(key+".budget") {
		c.mistake(key, "is empty; want mode, budget, instances or memory, or leave it out")
	}
	if doc.Instances < 0 || doc.Instances > 1<<20 {
		c.mistake(key+".instances", "%d; want 1 or more", doc.Instances)
	}
	if key == "failure" {
		c.set.instances, c.set.localBytes = int(doc.Instances), int64(doc.Memory)
		return &f
	}
	for name, set := range map[string]bool{"instances": doc.Instances != 0, "memory": doc.Memory != 0} {
		if set {
			c.mistake(key+"."+name, "is for all tiers and policies; say it in the failure section at the top level")
		}
	}
	return &f
}

func (c *compiler) clientIP() {
	doc := &c.doc.ClientIP
	trusted, unix, err := clientip.ParsePrefixes(doc.TrustedProxies)
	if err != nil {
		c.mistakes("client_ip.trusted_proxies", err)
	}
	c.set.resolver, err = clientip.New(clientip.Config{
		Trusted: trusted, TrustUnix: unix, Header: doc.Header,
		IPv4Prefix: c.bits("client_ip.ipv4_prefix", doc.IPv4Prefix, 32),
		IPv6Prefix: c.bits("client_ip.ipv6_prefix", doc.IPv6Prefix, 128),
	})
	c.set.clientField = http.CanonicalHeaderKey(cmp.Or(doc.Header, clientip.DefaultHeader))
	if err != nil {
		c.mistake("client_ip.header", "%q is not the name of a header; want something like X-Forwarded-For", doc.Header)
	}
}

// bits returns the length of a prefix, or 0 for the default.
func (c *compiler) bits(key string, n int64, most int) int {
	if c.has(key) && (n < 1 || n > int64(most)) {
		c.mistake(key, "%d; want 1 to %d", n, most)
		return 0
	}
	return int(n)
}

func (c *compiler) claims() {
	c.set.asserted = map[string]string{}
	for _, name := range sorted(c.doc.Claims) {
		key := "claims." + name
		c.nameOK(key, name)
		c.set.asserted[name] = c.field(key, c.doc.Claims[name])
	}
	if len(c.doc.Claims) > 0 && len(c.doc.ClientIP.TrustedProxies) == 0 {
		c.mistake("claims", "are believed from trusted proxies only, and there are none; list them in client_ip.trusted_proxies")
	}
}

// field returns a header field's name in canonical form.
func (c *compiler) field(key, name string) string {
	if !words.IsToken(name) {
		c.mistake(key, "%q is not the name of a header; want something like X-User-ID", name)
	}
	return http.CanonicalHeaderKey(name)
}

// nameOK reports whether a name can stand in keys, labels and headers.
func (c *compiler) nameOK(key, name string) bool {
	if words.IsName(name) && len(name) <= 64 {
		return true
	}
	c.mistake(key, "%q cannot be a name; want 1 to 64 letters, digits and _-.", name)
	return false
}

func (c *compiler) requestID(key string, doc *requestIDDoc) *requestID {
	if doc == nil {
		return nil
	}
	return &requestID{header: c.field(key+".header", doc.Header), life: c.inWindow(key+".life", doc.Life, true)}
}

// inWindow returns a time that a store can keep to.
func (c *compiler) inWindow(key string, d duration, zeroOK bool) time.Duration {
	t := time.Duration(d)
	if zeroOK && t == 0 && !c.has(key) {
		return 0
	}
	if t < stint.MinWindow || t > stint.MaxWindow || t%time.Microsecond != 0 {
		c.mistake(key, "%v; want whole microseconds from %v to 366 days", t, stint.MinWindow)
	}
	return t
}

func (c *compiler) bans(key string, doc *bansDoc) *stint.BanPolicy {
	if doc == nil {
		return nil
	}
	if doc.After == 0 {
		for _, k := range []string{"within", "durations", "forgive"} {
			if c.has(key+"."+k) && !c.has(key+".after") {
				c.mistake(key+"."+k, "has no effect without after: the number of denials that leads to a ban")
			}
		}
		return &stint.BanPolicy{}
	}
	if doc.After < 1 || doc.After > stint.Resolution {
		c.mistake(key+".after", "%d; want 1 to %d", doc.After, stint.Resolution)
	}
	b := &stint.BanPolicy{After: int(doc.After), Within: c.inWindow(key+".within", doc.Within, false), Forgive: 24 * time.Hour}
	for i, d := range doc.Durations {
		b.Durations = append(b.Durations, c.inWindow(fmt.Sprintf("%s.durations[%d]", key, i), d, false))
	}
	if len(b.Durations) == 0 || len(b.Durations) > 16 {
		c.mistake(key+".durations", "there are %d; want 1 to 16, such as [1m, 5m, 1h, 24h]", len(b.Durations))
	}
	if doc.Forgive != nil {
		b.Forgive = time.Duration(*doc.Forgive)
		if b.Forgive != 0 {
			c.inWindow(key+".forgive", *doc.Forgive, false)
		}
	}
	return b
}

func (c *compiler) headers() {
	doc := &c.doc.Headers
	h := DefaultHeaders()
	if len(doc.Format) > 0 {
		h.X = slices.Contains(doc.Format, "x")
		h.Draft11 = slices.Contains(doc.Format, "draft-11")
		for i, f := range doc.Format {
			if !slices.Contains(headerFormats, f) {
				c.mistake(at("headers.format", i, doc.Format), "%q; want %s%s", f, oneOf(headerFormats), nearest.Hint(f, headerFormats))
			}
		}
		if slices.Contains(doc.Format, "none") && len(doc.Format) > 1 {
			c.mistake("headers.format", `"none" and others besides; want one or the other`)
		}
	}
	switch doc.Reset {
	case "", "epoch":
	case "delta":
		h.ResetDelta = true
	default:
		c.mistake("headers.reset", "%q; want epoch or delta", doc.Reset)
	}
	if doc.Jitter != nil {
		h.Jitter = float64(*doc.Jitter) / 100
	}
	c.set.headers = h
}

var headerFormats = []string{"x", "draft-11", "none"}

// oneOf lists words for a sentence.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
