package config

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// The types in this file are the configuration language. Each field is a key. Its comment is the
// reference of that key: docs/configuration.md and the JSON Schema are generated from this file. A
// field is a pointer if leaving out the key differs from setting it to zero.

// document is a whole configuration.
type document struct {
	// Where the usage of subjects is kept.
	Store storeDoc `yaml:"store"`
	// What happens when the store does not answer.
	Failure *failureDoc `yaml:"failure"`
	// How to find the client's address when requests come through proxies.
	ClientIP clientIPDoc `yaml:"client_ip"`
	// Claims that trusted proxies assert in headers, as a mapping from the name of a claim to the
	// name of a header. If another peer sends these headers, they are ignored. Claims that the
	// application passes take precedence. An empty string marks a claim that only the application
	// passes.
	Claims map[string]string `yaml:"claims"`
	// Ways to identify the caller of a request, by name. Predefined: `ip` (the client's address),
	// `user` (the claim `user`, unless defined otherwise) and `everyone` (all callers together).
	Identities map[string]identityDoc `yaml:"identities"`
	// Groups of callers and their limits. A request belongs to the first tier that it matches.
	Tiers []tierDoc `yaml:"tiers"`
	// Limits on the requests that they match, in addition to the limits of the tier. Every policy
	// that matches applies.
	Policies []policyDoc `yaml:"policies"`
	// Bans for subjects that are denied repeatedly. A request to which no limit applies is not
	// checked, so a ban does not stop it. Default: no bans.
	Bans *bansDoc `yaml:"bans"`
	// The header that identifies a logical request, so that up to 8 repeats are not charged again.
	// Callers who reuse an id on purpose get nine requests for the price of one, so set it in the
	// policies of routes where repeats do no harm, rather than here for all requests.
	RequestID *requestIDDoc `yaml:"request_id"`
	// Where a denied caller can ask for more: text or a URL (http, https, mailto). Denials and
	// the dashboard show it. Applies to tiers and policies without a contact of their own.
	Contact string `yaml:"contact"`
	// Which rate limit headers responses have.
	Headers headersDoc `yaml:"headers"`
	// How many decisions are logged.
	Log logDoc `yaml:"log"`
	// External APIs that this application calls, by name.
	Outbound map[string]outboundDoc `yaml:"outbound"`
	// Addresses that are notified when a subject reaches a share of a limit (see notify). Read only
	// at startup.
	Webhooks []webhookDoc `yaml:"webhooks"`
	// Routes, timeouts and bounds of `stint gateway`. Other commands ignore them. Flags take
	// precedence.
	Gateway *gatewayDoc `yaml:"gateway"`
}

type storeDoc struct {
	// `memory`, or the URL of a Redis server: redis://user:password@host:6379/0, rediss:// for TLS,
	// ?addr=host:port for more nodes, ?master_set=name for Sentinel. Default: memory.
	URL string `yaml:"url"`
	// The prefix of every key. Default: stint.
	Prefix string `yaml:"prefix"`
	// How much memory the store `memory` may use: 256MiB. When it is full, it first forgets the
	// subjects that have the largest share of their limits left. Does not apply to Redis;
	// `failure.memory` is for decisions without Redis. Default: 1GiB.
	Memory size `yaml:"memory"`
	// A PEM file with the CA certificates that verify the certificate of a Redis server with a
	// rediss:// URL. New connections read this file, cert_file and key_file again. Relative paths
	// start at the directory of this configuration file. All three also apply to the URLs in
	// --store and REDIS_URL, unless these URLs name other files: ?ca_file=…&cert_file=…&key_file=….
	// Default: the system's CA certificates.
	CAFile string `yaml:"ca_file"`
	// A PEM file with a client certificate for Redis and its chain. Default: none.
	CertFile string `yaml:"cert_file"`
	// A file with the private key of cert_file.
	KeyFile string `yaml:"key_file"`
	// A file with a secret of at least 32 bytes, the same for all processes. Redis then stores a
	// keyed hash of every subject instead of the subject itself. A relative path starts at the
	// directory of this configuration file. The secret is read only at startup. Default: none,
	// subjects are not hashed.
	NameKeyFile string `yaml:"name_key_file"`
	// The file with the previous key, while processes change to the key in name_key_file. Subjects
	// are hashed with the previous key until a process starts that has only the new key. Then all
	// processes use the new key.
	PreviousNameKeyFile string `yaml:"previous_name_key_file"`
}

type failureDoc struct {
	// `local` (apply the same limits in memory; if there are several instances, each gets a part of
	// what is left), `allow`, `deny` (503) or `error` (the caller gets the error). Default: local.
	Mode *failureMode `yaml:"mode"`
	// How long a decision may take. `strict` is 1s: if Redis is slow, decisions wait for it instead
	// of being made without it. Default: 15ms.
	Budget budget `yaml:"budget"`
	// How many processes share the store. Used until the store has counted them. Only at the top
	// level.
	Instances int64 `yaml:"instances"`
	// How much memory a process may use to remember what the store granted it, for decisions
	// without the store: 64MiB. Only at the top level. Default: 64MiB.
	Memory size `yaml:"memory"`
	// When to stop calling a store that keeps failing, and when to try again. Only at the top
	// level.
	Breaker *breakerDoc `yaml:"breaker"`
}

type breakerDoc struct {
	// How many calls to the store must fail in a row to open the breaker. While it is open, the
	// failure mode decides without calling the store. Default: 5.
	Failures int64 `yaml:"failures"`
	// How often an open breaker pings the store, plus or minus a fifth. After a ping succeeds, a
	// decision tries the store. Default: 250ms.
	Probe duration `yaml:"probe"`
	// How long an open breaker waits before a decision tries the store, if the store does not
	// permit pings. Default: 30s.
	Retry duration `yaml:"retry"`
}

type clientIPDoc struct {
	// Peers that are trusted to name the client: addresses, networks, and the words `loopback`,
	// `private` and `unix` (peers on a Unix socket). Default: none, the peer is the client.
	TrustedProxies list `yaml:"trusted_proxies"`
	// The header in which trusted proxies name the client: X-Forwarded-For, Forwarded, X-Real-IP or
	// another header with one address. Default: X-Forwarded-For.
	Header string `yaml:"header"`
	// How many leading bits of an IPv4 address identify a client. Default: 32.
	IPv4Prefix int64 `yaml:"ipv4_prefix"`
	// How many leading bits of an IPv6 address identify a client. Default: 64.
	IPv6Prefix int64 `yaml:"ipv6_prefix"`
}

type identityDoc struct {
	// A claim that the application passes or a trusted proxy asserts (see claims).
	Claim string `yaml:"claim"`
	// A request header, such as an API key or a fingerprint. Any client can set it.
	Header string `yaml:"header"`
	// A cookie, such as a session cookie.
	Cookie string `yaml:"cookie"`
	// Several identities combined. A request has the combination only if it has all of them.
	All list `yaml:"all"`
	// The prefix of the identifier in keys. Default: the identity's name.
	Type string `yaml:"type"`
	// Show the value of a header or cookie unchanged in keys and logs. By default, a hash replaces
	// it, because it may be a secret.
	Plain bool `yaml:"plain"`
}

type tierDoc struct {
	// The tier's name in metrics, headers and keys.
	Name string `yaml:"name"`
	// Which requests belong to the tier. Default: all requests that have one of its identities.
	Match *matchDoc `yaml:"match"`
	// Which requests do not belong to the tier, even if they match.
	Unless *matchDoc `yaml:"unless"`
	// What identifies the tier's members: the first of these identities that a request has. A
	// request with none of them belongs to a later tier.
	Identity list `yaml:"identity"`
	// Which requests are counted together. A name such as `api` means one count for all requests of
	// a member, with the key type:identifier:api. `none` means the same without a name, with the
	// key type:identifier. `route` counts each route separately, with the key
	// type:identifier:route, so a member gets the limits once per route. Default: global.
	Scope string `yaml:"scope"`
	// Limits on the number of requests, such as 100/1m burst 3x. `unlimited` sets no limit, and
	// `unlimited/1d` sets none for that window. A mapping takes the maximum of a limit from a
	// claim.
	Limits ruleLimits `yaml:"limits"`
	// Limits on the total cost of requests.
	Budget ruleLimits `yaml:"budget"`
	// Shares of the tier's calendar and fixed-window limits and budgets: 50%, 80%, 100%. When a
	// member reaches a share, the event is logged, counted and posted to the webhooks, once per
	// period. 100% is reached at the first denial. Does not apply to limits in shadow.
	Notify shares `yaml:"notify"`
	// Decide and count, but do not deny requests over this tier's limits.
	Shadow bool `yaml:"shadow"`
	// The share of members for which limits are enforced. For the others, the limits are in shadow.
	// Default: 100%.
	Rollout *percent `yaml:"rollout"`
	// Bans for this tier, instead of those at the top level.
	Bans *bansDoc `yaml:"bans"`
	// What happens when the store does not answer, for this tier.
	Failure *failureDoc `yaml:"failure"`
	// Where callers denied by this tier's limits, or by a policy without a contact, can ask for
	// more. Default: the contact at the top level.
	Contact string `yaml:"contact"`
}

type policyDoc struct {
	// The policy's name in metrics, headers and keys.
	Name string `yaml:"name"`
	// Which requests the policy applies to. Default: all.
	Match *matchDoc `yaml:"match"`
	// Which requests the policy does not apply to, even if they match.
	Unless *matchDoc `yaml:"unless"`
	// Do not limit matching requests at all, whatever else they match.
	Skip bool `yaml:"skip"`
	// Requests are counted by the first of these identities that they have. The last one must be an
	// identity that every request has. Default: the identity in the request's tier.
	Identity list `yaml:"identity"`
	// Attributes by which requests are counted separately: `method`, `host`, `route`, or a variable of the path.
	Per list `yaml:"per"`
	// Limits on the number of requests, or such limits for each tier by name, with `default` for
	// tiers that are not named.
	Limits tierLimits `yaml:"limits"`
	// Limits on the total cost of requests, or such limits for each tier by name.
	Budget tierLimits `yaml:"budget"`
	// Shares of the policy's limits and budgets to report, as in a tier.
	Notify shares `yaml:"notify"`
	// The cost of a request: a number, or taken from a header. Default: 1.
	Cost *costDoc `yaml:"cost"`
	// Costs for named budgets, by the budget's name, where they differ from `cost`: `{input_tokens:
	// 1000, output_tokens: 4000}`.
	Costs map[string]int64 `yaml:"costs"`
	// Treat the costs as estimates, and let a request continue for this long without a heartbeat:
	// 5m, at most 1d. Budgets with a longer window hold the estimate until the true cost is known.
	// If no heartbeat arrives for this long, the estimate is given back. The gateway and the
	// middleware send heartbeats while a request runs. When it ends, they charge the cost that
	// `settle` gives, or the estimate. Callers of the JSON API must do both themselves.
	// Forward-auth holds nothing. Default: no hold.
	Hold duration `yaml:"hold"`
	// Budgets count the tokens of requests to a language model: estimated from the request, held
	// for 5m unless `hold` is set, and settled to the counts in the response. Budgets named
	// `input_tokens`, `output_tokens` and `cached_tokens` count tokens of that kind, a budget named
	// `price` counts the price of the tokens, and all others count tokens of any kind. Works only
	// where stint sees the bodies: in the gateway and the middleware.
	Usage *usageDoc `yaml:"usage"`
	// The true cost, known after the response. In budgets, it replaces the cost.
	Settle *settleDoc `yaml:"settle"`
	// Response statuses after which all charges are given back, such as 5xx or 404.
	Refund statuses `yaml:"refund"`
	// The header that identifies a logical request, for matching requests, instead of the one at
	// the top level.
	RequestID *requestIDDoc `yaml:"request_id"`
	// Decide and count, but do not deny requests over this policy's limits.
	Shadow bool `yaml:"shadow"`
	// The share of subjects for which limits are enforced. For the others, the limits are in
	// shadow. Default: 100%.
	Rollout *percent `yaml:"rollout"`
	// What happens when the store does not answer, for matching requests.
	Failure *failureDoc `yaml:"failure"`
	// Where callers denied by this policy's limits can ask for more. Default: the contact of their
	// tier.
	Contact string `yaml:"contact"`
}

// limitDoc is a limit whose maximum comes from a claim.
type limitDoc struct {
	// The limit for requests without the claim: 60/1m. 0/1m denies them.
	Limit string `yaml:"limit"`
	// The claim that gives the maximum of the limit, such as `rpm`: a whole number from 0, which
	// denies, to max. The application passes it or a trusted proxy asserts it, as with claims of
	// identities. When the maximum changes, usage stays and a burst changes in proportion. A claim
	// that is not a whole number counts as missing, and is logged.
	Claim string `yaml:"claim"`
	// The largest number that the claim may give. A larger one counts as this number, and is
	// logged.
	Max int64 `yaml:"max"`
}

// matchDoc matches the requests that match all of its keys.
type matchDoc struct {
	// Any of these hosts, without a port: api.example.com, *.example.com.
	Host list `yaml:"host"`
	// Any of these paths: /users/{id}, /static/**, /**/*.css. `{name}` and `*` match one segment,
	// `**` any number of segments.
	Path list `yaml:"path"`
	// Any of these methods.
	Method list `yaml:"method"`
	// Headers with any of these values; `*` matches any value.
	Header map[string]list `yaml:"header"`
	// Claims with any of these values; `*` matches any value.
	Claim map[string]list `yaml:"claim"`
	// The client's address is in any of these: addresses, networks, `loopback`, `private`.
	Network list `yaml:"network"`
}

// costDoc is a number, or a mapping.
type costDoc struct {
	// A fixed number of units; 0 charges no budget.
	Units *int64 `yaml:"-"`
	// The request header with the cost. Any client can set it, so bound it.
	Header string `yaml:"header"`
	// The cost of requests without the header, or with a header that is not a number. Default: 1.
	Default *int64 `yaml:"default"`
	// The smallest cost that the header may give. Default: 1.
	Min *int64 `yaml:"min"`
	// The largest cost that the header may give.
	Max int64 `yaml:"max"`
}

type settleDoc struct {
	// The response header with the true cost. It is removed from the response.
	Header string `yaml:"header"`
	// How many bytes of the response's body cost one unit: 1024, 1KiB, 1MB. A partial unit costs
	// one unit, too.
	Bytes size `yaml:"bytes"`
	// The largest debt that one true cost may cause in a bucket or a limit with a burst, in units
	// above its capacity. Units beyond that are not charged. Other limits are charged the whole
	// cost, because they forget it after a window. Default: the capacity of each limit.
	MaxDebt int64 `yaml:"max_debt"`
}

type usageDoc struct {
	// The API whose requests and responses are read: `openai`, `anthropic` or `gemini`, also for
	// compatible APIs. The preset sets the lists below. A list set here replaces the preset's list.
	Preset string `yaml:"preset"`
	// Where a request bounds its output, as JSON pointers: /max_tokens. The largest number counts.
	MaxOutput list `yaml:"max_output"`
	// Where a request gives the number of answers, each bounded by max_output: /n.
	Choices list `yaml:"choices"`
	// Where a request names the model: /model. Default for gemini: in the path.
	Model list `yaml:"model"`
	// Where a response reports its input tokens: JSON pointers, in a JSON body and in server-sent
	// events, or names of header fields and trailers. The last value of each counts. Paths that end
	// in the same name report the same number. Numbers with different names are added up.
	Input list `yaml:"input"`
	// Where a response reports its output tokens.
	Output list `yaml:"output"`
	// Where a response reports its input tokens that came from a cache.
	Cached list `yaml:"cached"`
	// The estimated output of requests that do not bound it, in tokens. Default: 1000.
	DefaultOutput int64 `yaml:"default_output"`
	// How many bytes of a request's body make up about one input token. Default: 4.
	BytesPerToken int64 `yaml:"bytes_per_token"`
	// How much of a request's body is read before the decision: at most 1MiB. The rest of a longer
	// body is ignored. Default: 64KiB.
	Body size `yaml:"body"`
	// What to charge for the output of a stream that does not report its usage, for example because
	// it ended early: the `estimate`, or one token for each of its `events`. Default: estimate.
	Missing string `yaml:"missing"`
	// Add `stream_options: {include_usage: true}` to requests for streams of OpenAI's chat
	// completions, which do not report their usage otherwise.
	InjectUsage bool `yaml:"inject_usage"`
	// How much a token of each kind counts in budgets that count tokens of any kind. Default: 1 for
	// each.
	Weights *ratesDoc `yaml:"weights"`
	// Prices by model, per million tokens, in units of budgets named `price`: 2500000 for 2.50
	// dollars if the unit is a millionth of a dollar. The price of each request is rounded up once.
	// `default` is for all other models; without it, requests for them are denied.
	Prices map[string]ratesDoc `yaml:"prices"`
}

type ratesDoc struct {
	// For input tokens that are not from a cache. Default: 0 for prices, 1 for weights.
	Input *int64 `yaml:"input"`
	// For output tokens. Default: 0 for prices, 1 for weights.
	Output *int64 `yaml:"output"`
	// For input tokens from a cache. Default: the value of input.
	Cached *int64 `yaml:"cached"`
}

type bansDoc struct {
	// Ban a subject after this many denials. With 0, no subject is banned automatically, but bans
	// that operators make apply.
	After int64 `yaml:"after"`
	// The period in which these denials occur.
	Within duration `yaml:"within"`
	// How long the first ban, the second ban and so on last. Later bans have the last duration.
	Durations []duration `yaml:"durations"`
	// How long a ban is remembered after its end. If the subject is banned again within this time,
	// the new ban has the next duration. If it is banned later, the new ban has the first duration.
	// Default: 24h.
	Forgive *duration `yaml:"forgive"`
}

type requestIDDoc struct {
	// The header, such as Idempotency-Key.
	Header string `yaml:"header"`
	// How long an id is remembered. Default: the shortest window of the tier's limits or, if the
	// tier enforces none, of the limits of the first policy that matches.
	Life duration `yaml:"life"`
	// For clients that send no id: derive one from caller, method, host, path, query and body.
	// Equal requests within this time, such as the two requests of a double click, are then charged
	// once. Use a short time such as 2s. At most 10s, and only in policies. Works only where stint
	// sees the body: in the gateway and the middleware, for requests that declare the length of
	// their body, at most 64KiB. Nine equal requests are served for one charge, so do not use it
	// where a concurrency limit applies. Redis keeps a hash of the body, so do not use it on routes
	// that take passwords or codes, unless store has a name_key_file. Default: no id is derived.
	Derive duration `yaml:"derive"`
}

type headersDoc struct {
	// Which rate limit fields responses have: `x` (X-RateLimit-Limit and the like), `draft-11`
	// (RateLimit and RateLimit-Policy of the IETF draft), several of them, or `none`. Default: x.
	Format list `yaml:"format"`
	// The form of X-RateLimit-Reset: seconds since 1970 (`epoch`) or from now (`delta`). After a
	// denied request, it is the time when such a request will be allowed, as in Retry-After. After
	// an allowed one, it is the time when the limit is fully reset. Default: epoch.
	Reset string `yaml:"reset"`
	// Add a random time to Retry-After when all callers share the limit that denied (identity
	// `everyone`), so that they do not all come back at once. The time is at most this share of
	// Retry-After, or a second if that is more. 0% adds nothing. For other limits, Retry-After is
	// exact. Default: 20%.
	Jitter *percent `yaml:"retry_after_jitter"`
}

type logDoc struct {
	// How many allowed requests to log per second, at level INFO. 0 logs none. Default: 5, at level
	// DEBUG.
	Admissions *int64 `yaml:"admissions"`
	// How many denied requests to log per second, at level WARN. 0 logs none. A number that is
	// never reached, such as 1000000, logs every one. Default: 5.
	Denials *int64 `yaml:"denials"`
}

type outboundDoc struct {
	// The known API whose limits apply: igdb, musicbrainz, rcsb, spotify, tmdb. Processes share its
	// state under the name given here.
	Preset string `yaml:"preset"`
	// The format of a language model's API: `openai`, `anthropic` or `gemini`. Limits named
	// `tokens`, `input_tokens` or `output_tokens` then count tokens.
	Usage string `yaml:"usage"`
	// Limits on the number of calls, for all processes together.
	Limits limitList `yaml:"limits"`
	// Fail at once instead of waiting until the limits permit a call.
	FailFast bool `yaml:"fail_fast"`
	// The longest wait for the limits. Default: as long as the caller's context permits.
	MaxWait duration `yaml:"max_wait"`
	// The longest pause that the API may impose, with Retry-After or similar fields. Default: 15m.
	MaxCooldown duration `yaml:"max_cooldown"`
	// How often to retry an idempotent request that was answered with 429, or with 503 and
	// Retry-After. Default: 0.
	Retries int64 `yaml:"retries"`
	// What happens when the store does not answer.
	Failure *failureDoc `yaml:"failure"`
}

type webhookDoc struct {
	// The address: https://, or http:// on this machine. Redirects are not followed.
	URL string `yaml:"url"`
	// A file with a secret of at least 16 bytes that signs the posts. A relative path starts at the
	// directory of this configuration file.
	KeyFile string `yaml:"key_file"`
}

type gatewayDoc struct {
	// Which requests go to which upstream. Routes for a request's host take precedence over those
	// for any host, and among these the longest path wins. If flags name routes, the routes in the
	// file are not used.
	Routes []routeDoc `yaml:"routes"`
	// How long connecting to an upstream may take. Default: 5s.
	ConnectTimeout duration `yaml:"connect_timeout"`
	// How long an upstream may take from the end of the request to the start of its response. After
	// that, the client gets 504. Default: 1m.
	ResponseTimeout duration `yaml:"response_timeout"`
	// How long a client may send nothing in the middle of a request's body. After that, it gets
	// 408. Default: 10s.
	BodyTimeout duration `yaml:"body_timeout"`
	// How much of a request's body a client must send per second, on average over body_timeout. A
	// slower client gets 408. Default: 500 bytes.
	MinBodyRate size `yaml:"min_body_rate"`
	// How long a client may read nothing of a response that is waiting to be sent, before the
	// response is cut off. Default: 30s.
	SendTimeout duration `yaml:"send_timeout"`
	// The largest size of a request's body: 1MB, 10MiB. Default: any size.
	MaxBody size `yaml:"max_body"`
	// What happens to requests with a raw backslash in the path or a raw hash sign, which servers
	// interpret in different ways: `refuse` (400) or `pass`. Default: refuse.
	UnusualPaths string `yaml:"unusual_paths"`
}

type routeDoc struct {
	// Any of these hosts, without a port or wildcard: api.example.com. Default: all.
	Host list `yaml:"host"`
	// Any of these paths and everything below them: /api/**. Default: all.
	Path list `yaml:"path"`
	// The URL to forward requests to: http://, https://, or h2c:// for HTTP/2 without TLS. Its path
	// is prepended to the path of the request.
	Upstream string `yaml:"upstream"`
	// Remove the route's path from the path of the request.
	StripPrefix bool `yaml:"strip_prefix"`
	// Send the upstream's host in requests, instead of the one that the client asked for.
	RewriteHost bool `yaml:"rewrite_host"`
	// The connect_timeout of this route. Default: the connect_timeout of the gateway.
	ConnectTimeout duration `yaml:"connect_timeout"`
	// The response_timeout of this route. Default: the response_timeout of the gateway.
	ResponseTimeout duration `yaml:"response_timeout"`
}

// Values with their own text form.
type (
	duration    time.Duration     // 15ms, 1m30s, 1h, 1d
	budget      time.Duration     // a duration, or strict
	percent     float64           // 25%, 0.5%: 0 to 100
	size        int64             // 1024, 1KiB, 1MB
	failureMode stint.FailureMode // local, allow, deny, error
)

// list is a list of strings. A single string may be written without a list.
type list []string

// limitList is a list of limits. A single limit may be written without a list. The list does not
// contain limits that are "unlimited".
type limitList []stint.Limit

// ruleLimits is like limitList, but the maximum of each limit may come from a claim.
type ruleLimits []policy.Limit

// tierLimits are limits for all tiers, or for each tier by name.
type tierLimits struct {
	All    ruleLimits
	ByTier map[string]ruleLimits
}

// shares are whole percentages. A single one may be written without a list.
type shares []int

// statuses are codes such as 404, and classes such as 5xx, stored as 5.
type statuses []int
