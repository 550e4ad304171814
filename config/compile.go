package config

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/redisurl"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/policy"
)

// compiler turns a document into a configuration. It records all mistakes in its reader instead of
// stopping at the first. It translates policies for package policy, which finds the mistakes in
// them.
type compiler struct {
	*reader
	doc    *document
	config *Config
	spec   policy.Spec
}

// compile returns the configuration that a document describes. If there are mistakes, the
// configuration is not valid.
func compile(doc *document, r *reader) *Config {
	c := &compiler{reader: r, doc: doc, config: &Config{}}
	c.spec.Source = c.config
	c.store()
	c.spec.Failure = *cmp.Or(c.failure("failure", doc.Failure), &stint.FailurePolicy{})
	c.clientIP()
	c.claims()
	c.identities()
	var derive time.Duration
	if c.spec.RequestID, c.spec.RequestIDLife, derive = c.requestID("request_id", doc.RequestID); derive != 0 {
		c.mistake("request_id.derive", "set it in policies, for routes where equal requests should count once")
	}
	c.spec.Contact = doc.Contact
	c.headers()
	c.log()
	c.outbound()
	c.gateway()
	c.webhooks()
	c.spec.Bans = c.bans("bans", doc.Bans)
	c.tiers()
	c.policies()
	c.makeSet()
	c.warnings()
	return c.config
}

// makeSet makes the set of policies. It reports the set's mistakes under the keys of the document.
func (c *compiler) makeSet() {
	set, err := policy.New(c.spec)
	c.config.Set = set
	c.mistakes("", err)
}

// mistakes records each mistake in err, which may be nil: a [*policy.Mistake] under its own key,
// and any other error under key. It omits a mistake that depends on a key whose value could not be
// read.
func (c *compiler) mistakes(key string, err error) {
	for _, e := range contract.EachMistake(err) {
		if m, ok := e.(*policy.Mistake); !ok {
			c.mistake(key, "%v", e)
		} else if !slices.ContainsFunc(m.Given, c.lacks) {
			c.mistake(m.Key, "%s", m.Message)
		}
	}
}

func (c *compiler) store() {
	s := Store{
		URL: c.doc.Store.URL, Prefix: c.doc.Store.Prefix, Memory: int64(c.doc.Store.Memory),
		CAFile:              c.file("store.ca_file", c.doc.Store.CAFile),
		CertFile:            c.file("store.cert_file", c.doc.Store.CertFile),
		KeyFile:             c.file("store.key_file", c.doc.Store.KeyFile),
		NameKeyFile:         c.file("store.name_key_file", c.doc.Store.NameKeyFile),
		PreviousNameKeyFile: c.file("store.previous_name_key_file", c.doc.Store.PreviousNameKeyFile),
	}
	if s.URL == "" {
		s.URL = memory
	}
	if invalid, ok := errors.AsType[*stint.InvalidError](redisurl.Check(s.URL)); ok && s.URL != memory {
		c.mistake("store.url", `%v; or want "memory"`, invalid.Err)
	}
	if strings.ContainsAny(s.Prefix, "{}: \t\r\n") {
		c.mistake("store.prefix", "%q contains a brace, colon or space, which are reserved in keys", s.Prefix)
	}
	switch {
	case s.Memory == 0:
	case s.URL != memory:
		c.mistake("store.memory", "is for the store in memory, but url names a Redis server; to limit the memory for decisions without Redis, set failure.memory")
	case s.Memory < syntax.MinMemory:
		c.mistake("store.memory", "%d bytes is too little; want 1MiB or more", s.Memory)
	}
	if s.NameKeyFile != "" && c.doc.Store.URL == memory { // if url is omitted, --store may name a Redis server
		c.mistake("store.name_key_file", "is for names in Redis, but url is memory; want the URL of a Redis server, or no name_key_file")
	}
	if s.NameKeyFile == "" && s.PreviousNameKeyFile != "" {
		c.mistake("store.previous_name_key_file", "needs the name_key_file that replaces it; to keep using this key, move it to name_key_file")
	}
	files := tlsfiles.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}
	if err := files.Check("cert_file", "key_file"); err != nil {
		c.mistake("store", "%v", err)
	}
	switch where := c.doc.Store.URL; {
	case files == tlsfiles.Files{}, where == "": // if url is omitted, --store may name a Redis server
	case !redisurl.IsTLS(where):
		c.mistake("store.url", "ca_file or cert_file is set, but the URL does not use TLS; want one that begins with rediss://")
	default:
		s.URL = files.AddTo(where, false)
	}
	c.config.Store = s
}

// webhooks checks the webhooks and adds them to the configuration. It does not read the files that
// contain their secrets.
func (c *compiler) webhooks() {
	for i, doc := range c.doc.Webhooks {
		key := item("webhooks", i)
		if wrong := syntax.WrongWebhook(doc.URL); wrong != "" && !c.lacks(key+".url") {
			c.mistake(key+".url", "%s", wrong)
		}
		if doc.KeyFile == "" && !c.has(key+".key_file") {
			c.mistake(key+".key_file", "is missing; want a file with a secret of at least 16 bytes, which the receiver uses to verify posts")
		}
		c.config.Webhooks = append(c.config.Webhooks,
			Webhook{URL: doc.URL, KeyFile: c.file(key+".key_file", doc.KeyFile)})
	}
}

// file returns the path of the file that a key names. A relative path is relative to the directory
// of the file that contains the key.
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

const maxInstances = 1 << 20

// failure returns the failure policy that a failure section defines, or nil if there is no section.
// Keys that are not set take their values from the section at the top level.
func (c *compiler) failure(key string, doc *failureDoc) *stint.FailurePolicy {
	if doc == nil {
		return nil
	}
	f := c.spec.Failure
	if doc.Mode != nil {
		f.Mode = stint.FailureMode(*doc.Mode)
	}
	if doc.Budget > 0 {
		f.Budget = time.Duration(doc.Budget)
	} else if c.has(key + ".budget") {
		c.mistake(key+".budget", "a decision needs some time; want a duration such as 15ms")
	}
	if doc.Mode == nil && doc.Budget == 0 && doc.Instances == 0 && doc.Memory == 0 && doc.Breaker == nil &&
		!c.has(key+".mode") && !c.has(key+".budget") {
		c.mistake(key, "is empty; want mode, budget, instances, memory or breaker, or leave it out")
	}
	if doc.Instances > maxInstances {
		c.mistake(key+".instances", "%d; want at most %d", doc.Instances, maxInstances)
	}
	if key == "failure" {
		c.config.Instances, c.config.LocalBytes = int(doc.Instances), int64(doc.Memory)
		c.breaker(key+".breaker", doc.Breaker)
		return &f
	}
	for name, set := range map[string]bool{
		"instances": doc.Instances != 0, "memory": doc.Memory != 0, "breaker": doc.Breaker != nil,
	} {
		if set {
			c.mistake(key+"."+name, "applies to all tiers and policies; set it in the failure section at the top level")
		}
	}
	return &f
}

func (c *compiler) breaker(key string, doc *breakerDoc) {
	if doc == nil {
		return
	}
	if *doc == (breakerDoc{}) && !c.has(key+".failures") && !c.has(key+".probe") && !c.has(key+".retry") {
		c.mistake(key, "is empty; want failures, probe or retry, or leave it out")
	}
	if c.has(key+".failures") && (doc.Failures < 1 || doc.Failures > math.MaxInt32) {
		c.mistake(key+".failures", "%d; want 1 or more", doc.Failures)
	}
	for name, t := range map[string]duration{"probe": doc.Probe, "retry": doc.Retry} {
		if c.has(key+"."+name) && time.Duration(t) < contract.MinBreakerTime {
			c.mistake(key+"."+name, "%v; want %v or more", time.Duration(t), contract.MinBreakerTime)
		}
	}
	c.config.BreakerFailures = int(doc.Failures)
	c.config.BreakerProbe, c.config.BreakerRetry = time.Duration(doc.Probe), time.Duration(doc.Retry)
}

func (c *compiler) headers() {
	doc := &c.doc.Headers
	h := &c.spec.Headers
	if len(doc.Format) > 0 {
		h.OmitX = !slices.Contains(doc.Format, "x")
		h.Draft11 = slices.Contains(doc.Format, "draft-11")
		for i, f := range doc.Format {
			if !slices.Contains(headerFormats, f) {
				c.mistake(at("headers.format", i, doc.Format), "%q; %s", f, messages.Want(f, headerFormats))
			}
		}
		if slices.Contains(doc.Format, "none") && len(doc.Format) > 1 {
			c.mistake("headers.format", `"none" excludes other formats; want one or the other`)
		}
	}
	switch doc.Reset {
	case "", "epoch":
	case "delta":
		h.ResetDelta = true
	default:
		c.mistake("headers.reset", "%q; want epoch or delta", doc.Reset)
	}
	h.Jitter = doc.Jitter.share()
}

func (c *compiler) log() {
	if most := c.doc.Log.Admissions; most != nil {
		c.spec.LogAdmissions = new(int(*most))
	}
	if most := c.doc.Log.Denials; most != nil {
		c.spec.LogDenials = new(int(*most))
	}
}

var headerFormats = []string{"x", "draft-11", "none"}

// at returns the key of element i of a list. If the list has one element, at returns the key of the
// list: a single element may be written without a list.
func at[E any](key string, i int, of []E) string {
	if len(of) == 1 {
		return key
	}
	return item(key, i)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
