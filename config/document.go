package config

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// The types in this file are the configuration language: each field is a key, and its comment is
// the reference in docs/configuration.md and in the JSON Schema, which are generated from this
// file. A field is a pointer if leaving it out differs from its zero value.

// document is a whole configuration.
type document struct {
	// Where what subjects have used is kept.
	Store storeDoc `yaml:"store"`
	// What happens when the store does not answer.
	Failure *failureDoc `yaml:"failure"`
	// Where a request comes from when there are proxies in front.
	ClientIP clientIPDoc `yaml:"client_ip"`
	// Facts that trusted proxies assert in headers: the claim's name, then the header's. From
	// anyone else those headers are ignored. What the application passes takes precedence; an empty
	// text stands for a claim that no one else passes.
	Claims map[string]string `yaml:"claims"`
	// Ways to tell who is asking, by name. Always there: `ip` (the client's address), `user` (the
	// claim `user`, unless defined otherwise) and `everyone` (all callers together, on purpose).
	Identities map[string]identityDoc `yaml:"identities"`
	// Who may do how much. A request belongs to the first tier that fits.
	Tiers []tierDoc `yaml:"tiers"`
	// What may be done how often, in addition to the limits of the tier. Every policy that matches
	// applies.
	Policies []policyDoc `yaml:"policies"`
	// Bans for subjects that keep being denied; without it there are none. A request without any
	// limit is not checked, so no ban stops it.
	Bans *bansDoc `yaml:"bans"`
	// The header that names one logical request, so that up to 8 repeats are not charged again.
	// Callers who reuse an id on purpose get nine requests for one: set it in the policies of
	// routes whose repeats do no harm, rather than here for all.
	RequestID *requestIDDoc `yaml:"request_id"`
	// Where a caller who is denied can ask for more: a text, or a URL (http, https, mailto).
	// Denials and the dashboard show it. For tiers and policies without a contact of their own.
	Contact string `yaml:"contact"`
	// What responses say about limits.
	Headers headersDoc `yaml:"headers"`
	// What is logged of decisions.
	Log logDoc `yaml:"log"`
	// Other people's APIs that we call, by name.
	Outbound map[string]outboundDoc `yaml:"outbound"`
	// Where the shares of quotas that subjects reach are posted (see notify). Read at the start.
	Webhooks []webhookDoc `yaml:"webhooks"`
	// Where `stint gateway` forwards requests, and how long that may take. Nothing else reads it,
	// and flags take precedence.
	Gateway *gatewayDoc `yaml:"gateway"`
}

type storeDoc struct {
	// `memory`, or the URL of a Redis: redis://user:password@host:6379/0, rediss:// for TLS,
	// ?addr=host:port for further nodes, ?master_set=name for Sentinel. Default: memory.
	URL string `yaml:"url"`
	// What every key begins with. Default: stint.
	Prefix string `yaml:"prefix"`
	// How much memory the store `memory` may use: 256MiB. Above it, subjects are forgotten, those
	// with the most left of their limits first. Not for Redis; `failure.memory` is for decisions
	// without it. Default: 1GiB.
	Memory size `yaml:"memory"`
	// A file with the CA certificates that the certificate of a Redis with rediss:// is checked
	// against, in PEM form. New connections read these files again; relative paths start at the
	// directory of this file. They apply to the Redis of --store and REDIS_URL too, unless it names
	// its own: ?ca_file=…&cert_file=…&key_file=…. Default: the system's CA certificates.
	CAFile string `yaml:"ca_file"`
	// A file with a client certificate for Redis and its chain, in PEM form. Default: none.
	CertFile string `yaml:"cert_file"`
	// A file with the key of cert_file.
	KeyFile string `yaml:"key_file"`
	// A file with a secret text of at least 32 bytes, the same for all processes: Redis then holds
	// a hash of every subject, keyed with it, and not the subject itself. A relative path starts at
	// the directory of this file. The file is read at the start. Default: none, subjects are kept
	// as they are.
	NameKeyFile string `yaml:"name_key_file"`
	// The file with the key that name_key_file replaces. It stays in use until a process has only
	// the new one.
	PreviousNameKeyFile string `yaml:"previous_name_key_file"`
}

type failureDoc struct {
	// `local` (the same limits in memory; several instances divide what is left), `allow`, `deny`
	// (503) or `error` (the caller gets it). Default: local.
	Mode *failureMode `yaml:"mode"`
	// How long a decision may take. `strict` is 1s: where Redis is slow, decisions wait for it
	// instead of being made without it. Default: 15ms.
	Budget budget `yaml:"budget"`
	// How many processes share the store, as long as it has not been able to count them. Only at
	// the top level.
	Instances int64 `yaml:"instances"`
	// How much memory a process may use to remember what it was granted, for decisions without the
	// store: 64MiB. Only at the top level. Default: 64MiB.
	Memory size `yaml:"memory"`
	// When to stop asking a store that keeps failing, and when to try again. Only at the top level.
	Breaker *breakerDoc `yaml:"breaker"`
}

type breakerDoc struct {
	// How many calls to the store have to fail in a row for the breaker to open. While it is open,
	// the failure mode decides without asking the store. Default: 5.
	Failures int64 `yaml:"failures"`
	// How often an open breaker pings the store, give or take a fifth. Once a ping is answered, a
	// decision tries the store. Default: 250ms.
	Probe duration `yaml:"probe"`
	// After how long an open breaker tries a decision if the store does not permit pings. Default:
	// 30s.
	Retry duration `yaml:"retry"`
}

type clientIPDoc struct {
	// Peers that are trusted to name the client: addresses, networks, and the words `loopback`,
	// `private` and `unix` (peers on a Unix socket). Default: none, the client is the peer.
	TrustedProxies list `yaml:"trusted_proxies"`
	// The one header that they write: X-Forwarded-For, Forwarded, X-Real-IP or another with one
	// address. Default: X-Forwarded-For.
	Header string `yaml:"header"`
	// How many leading bits of an IPv4 address are one client. Default: 32.
	IPv4Prefix int64 `yaml:"ipv4_prefix"`
	// How many leading bits of an IPv6 address are one client. Default: 64.
	IPv6Prefix int64 `yaml:"ipv6_prefix"`
}

type identityDoc struct {
	// A claim: passed by the application, or asserted by a trusted proxy (see claims).
	Claim string `yaml:"claim"`
	// A request header that anyone can write, such as an API key or a fingerprint.
	Header string `yaml:"header"`
	// A cookie, such as that of a session.
	Cookie string `yaml:"cookie"`
	// Several identities together: absent if one of them is.
	All list `yaml:"all"`
	// What keys have before the identifier. Default: the identity's name.
	Type string `yaml:"type"`
	// Show the value of a header or cookie in keys and logs as it is. By default a hash replaces
	// it, because it may be a secret.
	Plain bool `yaml:"plain"`
}

type tierDoc struct {
	// The tier's name, as in metrics, headers and keys.
	Name string `yaml:"name"`
	// Who belongs to it; without it, everyone who has its identity.
	Match *matchDoc `yaml:"match"`
	// Who does not, although they match.
	Unless *matchDoc `yaml:"unless"`
	// What identifies its members: the first of these identities that a request has. A request that
	// has none of them belongs to a later tier.
	Identity list `yaml:"identity"`
	// What is counted together. A name such as `api` is one count for all requests of a member:
	// type:identifier:api. `none` is the same without a name: type:identifier. `route` counts each
	// route separately, type:identifier:route, so that a member gets the limits once for every
	// route. Default: global.
	Scope string `yaml:"scope"`
	// Limits on the number of requests, such as 100/1m burst 3x. `unlimited` is none,
	// `unlimited/1d` is none for a window. A mapping has its number from a claim.
	Limits ruleLimits `yaml:"limits"`
	// Limits on the sum of the requests' costs.
	Budget ruleLimits `yaml:"budget"`
	// Shares of its limits and budgets of a calendar or with fixed windows: 50%, 80%, 100%. When a
	// member reaches one, that is logged, counted and posted to the webhooks, once a period. 100%
	// is the first denial. Not for limits in shadow.
	Notify shares `yaml:"notify"`
	// Decide and count, but deny no one for this tier's limits.
	Shadow bool `yaml:"shadow"`
	// The share of members whose limits are enforced; they are in shadow for the others. Default:
	// 100%.
	Rollout *percent `yaml:"rollout"`
	// Bans for this tier instead of those at the top level.
	Bans *bansDoc `yaml:"bans"`
	// What happens when the store does not answer, for this tier.
	Failure *failureDoc `yaml:"failure"`
	// Where callers denied by this tier's limits, or by a policy without a contact, can ask for
	// more. Default: that at the top level.
	Contact string `yaml:"contact"`
}

type policyDoc struct {
	// The policy's name, as in metrics, headers and keys.
	Name string `yaml:"name"`
	// Which requests it is for; without it all of them.
	Match *matchDoc `yaml:"match"`
	// Which it is not for, although they match.
	Unless *matchDoc `yaml:"unless"`
	// Requests that match are not limited at all, whatever else matches.
	Skip bool `yaml:"skip"`
	// Whose requests are counted together: the first of these identities that a request has; the
	// last one must be one that no request lacks. Default: the identity in the request's tier.
	Identity list `yaml:"identity"`
	// What else divides the count: `method`, `host`, `route`, or a variable of the path.
	Per list `yaml:"per"`
	// Limits on the number of requests; or limits for each tier by its name, with `default` for the
	// tiers that are not named.
	Limits tierLimits `yaml:"limits"`
	// Limits on the sum of the requests' costs; or for each tier.
	Budget tierLimits `yaml:"budget"`
	// Shares of its limits and budgets that are reported, as in a tier.
	Notify shares `yaml:"notify"`
	// What a request costs: a number, or taken from a header. Default: 1.
	Cost *costDoc `yaml:"cost"`
	// Costs of budgets with a name, by that name, where they differ from `cost`: `{input_tokens:
	// 1000, output_tokens: 4000}`.
	Costs map[string]int64 `yaml:"costs"`
	// The costs are estimates, and a request may go on for this long without a sign of life: 5m, at
	// most 1d. Budgets with a longer window hold the estimate until the true cost is known, or
	// until that time has passed without a sign of life: then it is given back. The gateway and the
	// middleware give signs of life while a request runs, and charge what `settle` says, or the
	// estimate, when it ends. Callers of the JSON API do both themselves. Forward-auth does not
	// hold. Default: nothing is held.
	Hold duration `yaml:"hold"`
	// Budgets count the tokens of requests to a language model: estimated from the request, held
	// for 5m unless `hold` says so, and settled to what the response names. A budget with the name
	// `input_tokens`, `output_tokens` or `cached_tokens` counts these, one with the name `price`
	// what they cost, and all others tokens of any kind. Only where stint sees the bodies: in the
	// gateway and the middleware.
	Usage *usageDoc `yaml:"usage"`
	// The true cost, known after the response: the budgets are corrected by it.
	Settle *settleDoc `yaml:"settle"`
	// Statuses after which everything charged is given back, such as 5xx or 404.
	Refund statuses `yaml:"refund"`
	// The header that names one logical request, for requests that match, instead of that at the
	// top level.
	RequestID *requestIDDoc `yaml:"request_id"`
	// Decide and count, but deny no one for this policy's limits.
	Shadow bool `yaml:"shadow"`
	// The share of subjects whose limits are enforced; they are in shadow for the others. Default:
	// 100%.
	Rollout *percent `yaml:"rollout"`
	// What happens when the store does not answer, for requests that match.
	Failure *failureDoc `yaml:"failure"`
	// Where callers denied by this policy's limits can ask for more. Default: that of their tier.
	Contact string `yaml:"contact"`
}

// limitDoc is a limit whose number comes from a claim.
type limitDoc struct {
	// The limit, with the number of requests that do not have the claim: 60/1m. 0/1m denies them.
	Limit string `yaml:"limit"`
	// The claim that has the number of the limit, a whole number from 0, which denies, to max:
	// `rpm`. Like those of identities it is passed by the application, or asserted by a trusted
	// proxy. What is used stays used when the number changes, and a burst keeps its proportion to
	// it. A claim that is no whole number counts as missing, and is logged.
	Claim string `yaml:"claim"`
	// The largest number that the claim may give. A larger one counts as this, and is logged.
	Max int64 `yaml:"max"`
}

// matchDoc fits a request that fits all of its keys.
type matchDoc struct {
	// Any of these hosts, without port: api.example.com, *.example.com.
	Host list `yaml:"host"`
	// Any of these paths: /users/{id}, /static/**, /**/*.css. `{name}` and `*` are one segment,
	// `**` any number of them.
	Path list `yaml:"path"`
	// Any of these methods.
	Method list `yaml:"method"`
	// Headers with any of these values; `*` is any value.
	Header map[string]list `yaml:"header"`
	// Claims with any of these values; `*` is any value.
	Claim map[string]list `yaml:"claim"`
	// The client's address is in any of these networks: addresses, networks, `loopback`, `private`.
	Network list `yaml:"network"`
}

// costDoc is a number, or a mapping.
type costDoc struct {
	// A fixed number of units; 0 charges no budget.
	Units *int64 `yaml:"-"`
	// The request header that says it. Anybody can write it: bound it.
	Header string `yaml:"header"`
	// What it costs without the header, or with one that is not a number. Default: 1.
	Default *int64 `yaml:"default"`
	// The least that the header may say. Default: 1.
	Min *int64 `yaml:"min"`
	// The most that the header may say.
	Max *int64 `yaml:"max"`
}

type settleDoc struct {
	// The response header that says the true cost. It is removed from the response.
	Header string `yaml:"header"`
	// Bytes of response body to the unit: 1024, 1KiB, 1MB. Every part of one counts.
	Bytes size `yaml:"bytes"`
	// The largest debt that one true cost may leave a bucket or a limit with a burst: how many
	// units above its capacity it may be taken. What is more is not charged. Default: one capacity
	// of each limit. Other limits take the whole cost: they forget it after a window.
	MaxDebt *int64 `yaml:"max_debt"`
}

type usageDoc struct {
	// Where requests and responses of an API have their numbers: `openai`, `anthropic` or `gemini`,
	// also for what is compatible with them. The lists that follow replace those of the preset.
	Preset string `yaml:"preset"`
	// Where a request bounds its output, as JSON pointers: /max_tokens. The largest number counts.
	MaxOutput list `yaml:"max_output"`
	// Where it says how many answers it wants, each of that length: /n.
	Choices list `yaml:"choices"`
	// Where it names the model: /model. Default for gemini: in the path.
	Model list `yaml:"model"`
	// Where a response counts the tokens of its input: JSON pointers, in a JSON body and in
	// server-sent events, or names of header fields and trailers. The last value of each counts.
	// Places with the same last name are one number, those with different names are added up.
	Input list `yaml:"input"`
	// Where it counts those of its output.
	Output list `yaml:"output"`
	// Where it counts those of its input that came from a cache.
	Cached list `yaml:"cached"`
	// The estimated output of requests that do not bound it, in tokens. Default: 1000.
	DefaultOutput *int64 `yaml:"default_output"`
	// How many bytes of a request's body are about one token of input. Default: 4.
	BytesPerToken *int64 `yaml:"bytes_per_token"`
	// How much of a request's body is read before the decision: at most 1MiB. In a longer one, what
	// follows is not looked at. Default: 64KiB.
	Body size `yaml:"body"`
	// What is charged for the output of a stream that does not say what was used, because it ended
	// early for instance: the `estimate`, or a token for each of its `events`. Default: estimate.
	Missing string `yaml:"missing"`
	// Add `stream_options: {include_usage: true}` to requests for streams of OpenAI's chat
	// completions, which do not say what was used otherwise.
	InjectUsage bool `yaml:"inject_usage"`
	// What each kind of token counts in budgets that count all of them. Default: 1 for each.
	Weights *ratesDoc `yaml:"weights"`
	// Prices by model, per million tokens, in units of budgets with the name `price`: 2500000 for
	// 2.50 dollars if the unit is a millionth of a dollar. Rounded up once for each request.
	// `default` is for all other models; without it, requests for them are denied.
	Prices map[string]ratesDoc `yaml:"prices"`
}

type ratesDoc struct {
	// For tokens of input that are not from a cache. Default: 0, and 1 for weights.
	Input *int64 `yaml:"input"`
	// For tokens of output. Default: 0, and 1 for weights.
	Output *int64 `yaml:"output"`
	// For tokens of input from a cache. Default: as input.
	Cached *int64 `yaml:"cached"`
}

type bansDoc struct {
	// Ban after this many denials; 0 makes none, and applies those made by hand.
	After int64 `yaml:"after"`
	// The time in which they happen.
	Within duration `yaml:"within"`
	// How long the first ban lasts, the second and so on; the last one repeats.
	Durations []duration `yaml:"durations"`
	// How long after the end of a ban it no longer counts. Default: 24h.
	Forgive *duration `yaml:"forgive"`
}

type requestIDDoc struct {
	// The header, such as Idempotency-Key.
	Header string `yaml:"header"`
	// How long an id is remembered. Default: the shortest window of the request's first limits.
	Life duration `yaml:"life"`
	// For clients that send no id: derive one from caller, method, host, path, query and body, so
	// that equal requests within this time, such as those of a double click, are charged once: 2s.
	// Only in policies, at most 10s, and only where stint sees the body: in the gateway and the
	// middleware, if its length is announced and at most 64KiB. Of equal requests, nine are served
	// for one charge, so not where a concurrency limit applies. Redis keeps a hash of the body, so
	// not on routes that take passwords or codes, unless store has a name_key_file. Default: none
	// is derived.
	Derive duration `yaml:"derive"`
}

type headersDoc struct {
	// Which fields responses have: `x` (X-RateLimit-Limit and the like), `draft-11` (RateLimit and
	// RateLimit-Policy of the IETF draft), several of them, or `none`. Default: x.
	Format list `yaml:"format"`
	// X-RateLimit-Reset as seconds since 1970 (`epoch`) or from now (`delta`): when a denied
	// request has room again, as in Retry-After, and after an allowed one when the limit is unused.
	// Default: epoch.
	Reset string `yaml:"reset"`
	// Add up to this share to Retry-After, at random, and at least a second, if a limit that all
	// callers share (identity `everyone`) denied, so that they do not come back together. 0% adds
	// nothing. The Retry-After of other limits is exact. Default: 20%.
	Jitter *percent `yaml:"retry_after_jitter"`
}

type logDoc struct {
	// How many allowed requests to log per second, at the level INFO; 0 logs none. Default: 5, at
	// the level DEBUG.
	Admissions *int64 `yaml:"admissions"`
	// How many denied requests to log per second, at the level WARN; 0 logs none, and a number that
	// is never reached, such as 1000000, logs every one. Default: 5.
	Rejections *int64 `yaml:"rejections"`
}

type outboundDoc struct {
	// The limits of a known API: igdb, musicbrainz, rcsb, spotify, tmdb. Processes share its state
	// under the name given here.
	Preset string `yaml:"preset"`
	// The format of a language model's API, `openai`, `anthropic` or `gemini`: limits with the name
	// `tokens`, `input_tokens` or `output_tokens` then count tokens.
	Usage string `yaml:"usage"`
	// Limits on the number of calls, of all processes together.
	Limits limitList `yaml:"limits"`
	// Fail at once instead of waiting for room.
	FailFast bool `yaml:"fail_fast"`
	// The longest wait. Default: as long as the caller's context.
	MaxWait duration `yaml:"max_wait"`
	// The longest pause that the API may impose by Retry-After and the like. Default: 15m.
	MaxCooldown duration `yaml:"max_cooldown"`
	// How often an idempotent request is repeated that was answered with 429, or 503 and
	// Retry-After. Default: 0.
	Retries int64 `yaml:"retries"`
	// What happens when the store does not answer.
	Failure *failureDoc `yaml:"failure"`
}

type webhookDoc struct {
	// The address, https://, or http:// on this machine. Redirects are not followed.
	URL string `yaml:"url"`
	// A file with a secret text of at least 16 bytes, which signs what is posted. A relative path
	// starts at the directory of this file.
	KeyFile string `yaml:"key_file"`
}

type gatewayDoc struct {
	// Which requests go where. Routes of a request's host come before those of any host, and of
	// these the one with the longest path is taken. If flags name any, these are not used.
	Routes []routeDoc `yaml:"routes"`
	// How long connecting to an upstream may take. Default: 5s.
	ConnectTimeout duration `yaml:"connect_timeout"`
	// How long an upstream may take from the end of the request to the beginning of its response:
	// 504 after that. Default: 1m.
	ResponseTimeout duration `yaml:"response_timeout"`
	// How long a client may be silent in the middle of a request's body: 408 after that. Default:
	// 10s.
	BodyTimeout duration `yaml:"body_timeout"`
	// How much of a request's body a client has to send in a second, on average over the
	// body_timeout: 408 below. Default: 500 bytes.
	MinBodyRate size `yaml:"min_body_rate"`
	// How long a client may take nothing of a response that waits to be sent: the response is cut
	// off after that. Default: 30s.
	SendTimeout duration `yaml:"send_timeout"`
	// How large a request's body may be: 1MB, 10MiB. Default: any size.
	MaxBody size `yaml:"max_body"`
	// What happens to requests with a raw backslash in the path or a raw hash sign, which servers
	// read in different ways: `refuse` (400) or `pass`. Default: refuse.
	UnusualPaths string `yaml:"unusual_paths"`
}

type routeDoc struct {
	// Any of these hosts, without port or wildcard: api.example.com. Default: all.
	Host list `yaml:"host"`
	// All that is below any of these paths, and the path itself: /api/**. Default: all.
	Path list `yaml:"path"`
	// The URL that requests are forwarded to: http://, https://, or h2c:// for HTTP/2 without TLS.
	// Its path goes before that of the request.
	Upstream string `yaml:"upstream"`
	// Remove the path that is named here from that of the request.
	StripPrefix bool `yaml:"strip_prefix"`
	// Name the upstream's host in requests, instead of the one that clients ask for.
	RewriteHost bool `yaml:"rewrite_host"`
	// As at the top of the section, for this route.
	ConnectTimeout duration `yaml:"connect_timeout"`
	// As at the top of the section, for this route.
	ResponseTimeout duration `yaml:"response_timeout"`
}

// Values with a text form of their own.
type (
	duration    time.Duration     // 15ms, 1m30s, 1h, 1d
	budget      time.Duration     // a duration, or strict
	percent     float64           // 25%, 0.5%: 0 to 100
	size        int64             // 1024, 1KiB, 1MB
	failureMode stint.FailureMode // local, allow, deny, error
)

// list is a list of texts. A single text may be written without a list.
type list []string

// limitList is a list of limits. A single limit may be written without a list. Limits that are
// "unlimited" are left out.
type limitList []stint.Limit

// ruleLimits is like limitList, but the number of each limit may come from a claim.
type ruleLimits []policy.Limit

// tierLimits are limits for all tiers, or for each tier by name.
type tierLimits struct {
	All    ruleLimits
	ByTier map[string]ruleLimits
}

// shares are whole percentages. A single one may be written without a list.
type shares []int

// statuses are codes such as 404, and classes such as 5xx, which is stored as 5.
type statuses []int
