package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/server"
)

// ratelimitName is the name of the program that --as-ratelimit replaces. If stint is called by this
// name, it acts as that program, because Envoy Gateway starts /bin/ratelimit without arguments.
const ratelimitName = "ratelimit"

// asRatelimit reads the environment of envoyproxy/ratelimit. Flags take precedence over it. Some
// variables have no effect and cause no warning, because they configure things that stint does not
// have, such as a Redis connection pool. docs/migrating.md lists these variables.
type asRatelimit struct {
	getenv func(string) string
	given  func(flag string) bool
	errs   []error
	// warnings lists the ignored settings, each with the effect of ignoring it.
	warnings []string
}

// ratelimitWarnings holds the variables that stint ignores with a warning, because decisions do not
// depend on them. The field fine is the value that needs no warning, and the field change describes
// the effect of ignoring any other value. There is no warning for a variable that has no effect in
// envoyproxy/ratelimit; see ratelimitNeeds.
var ratelimitWarnings = map[string]struct{ fine, change string }{
	"REDIS_PERSECOND":                      {"false", "limits per second are also counted in the Redis server of REDIS_URL"},
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": {"false", "/healthcheck does not fail without Redis, because limits still hold in each process"},
	"USE_STATSD":                           {"false", "no metrics are sent to statsd; set USE_PROMETHEUS"},
	"USE_DOG_STATSD":                       {"false", "no metrics are sent to statsd; set USE_PROMETHEUS"},
	"STATSD_HOST":                          {"", "no metrics are sent to statsd; set USE_PROMETHEUS"},
	"STATSD_PORT":                          {"", "no metrics are sent to statsd; set USE_PROMETHEUS"},
	"EXTRA_TAGS":                           {"", "metrics do not have these tags; add them in Prometheus"},
	"PROMETHEUS_PATH":                      {"/metrics", "metrics are at /metrics"},
	"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": {"false", "response times are in seconds"},
	"TRACING_ENABLED":                          {"false", "no traces are sent"},
	"GRPC_MAX_CONNECTION_AGE":                  {"", "connections of Envoy are not closed by age, so new processes get only new connections"},
	"GRPC_MAX_CONNECTION_AGE_GRACE":            {"", "connections of Envoy are not closed by age"},
}

// ratelimitRefused holds the variables that prevent stint from starting, because ignoring them
// would change decisions, admit other callers, or leave requests unserved. The field fine is the
// permitted value, and the field want says what to set instead of other values. A variable that has
// no effect in envoyproxy/ratelimit may have any value; see ratelimitNeeds.
var ratelimitRefused = map[string]struct{ fine, want string }{
	"BACKEND_TYPE":                         {"redis", "stint counts in Redis, not in memcached; want redis, and a Redis server in REDIS_URL"},
	"GRPC_UDS":                             {"", "gRPC over a Unix socket is not supported; want GRPC_HOST and GRPC_PORT"},
	"GRPC_CLIENT_TLS_SAN":                  {"", "names in client certificates are not checked; want a CA in GRPC_CLIENT_TLS_CACERT that signs only certificates of callers"},
	"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": {"false", "the name in the certificate of Redis is always checked; want a host in REDIS_URL that the certificate is valid for"},
	"REDIS_SENTINEL_AUTH":                  {"", "passwords of Sentinels are not supported; want Sentinels without a password"},
}

// ratelimitNeeds holds the variables that have an effect in envoyproxy/ratelimit only if another
// variable is set to a certain value. The fields name and value describe that other variable, and
// byDefault is true if it may also be unset.
var ratelimitNeeds = map[string]struct {
	name, value string
	byDefault   bool
}{
	"GRPC_CLIENT_TLS_SAN":                      {"GRPC_SERVER_USE_TLS", "true", false},
	"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION":     {"REDIS_TLS", "true", false},
	"REDIS_SENTINEL_AUTH":                      {"REDIS_TYPE", "sentinel", false},
	"PROMETHEUS_PATH":                          {"USE_PROMETHEUS", "true", false},
	"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": {"USE_PROMETHEUS", "true", false},
	"STATSD_HOST":                              {"USE_STATSD", "true", true},
	"STATSD_PORT":                              {"USE_STATSD", "true", true},
}

// applyRatelimit applies the environment of envoyproxy/ratelimit to the settings that no flag sets.
func (c *serveCommand) applyRatelimit(r *asRatelimit) error {
	for _, name := range slices.Sorted(maps.Keys(ratelimitRefused)) {
		if of := ratelimitRefused[name]; r.other(name, of.fine) && r.effective(name) {
			r.wrong(name, of.want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ratelimitWarnings)) {
		if of := ratelimitWarnings[name]; r.other(name, of.fine) && r.effective(name) {
			r.warnings = append(r.warnings, name+" is ignored: "+of.change)
		}
	}
	r.addresses(c)
	r.tls(c)
	r.counting(c)
	r.rules(c)
	r.logging(c)
	c.storePrefix = r.env("CACHE_KEY_PREFIX")
	if store := c.Store; store == "" || store == redisStore {
		c.envStore = r.redis()
	}
	return errors.Join(r.errs...)
}

func (r *asRatelimit) env(name string) string { return strings.TrimSpace(r.getenv(name)) }

// other reports whether a variable is set to a value that differs from the parameter fine. It
// ignores differences in case and in the spelling of Booleans.
func (r *asRatelimit) other(name, fine string) bool {
	value := r.env(name)
	if on, err := strconv.ParseBool(value); err == nil && (fine == "false" || fine == "true") {
		value = strconv.FormatBool(on)
	}
	return value != "" && !strings.EqualFold(value, fine)
}

// effective reports whether a variable has an effect in envoyproxy/ratelimit.
func (r *asRatelimit) effective(name string) bool {
	needs, ok := ratelimitNeeds[name]
	return !ok || !r.other(needs.name, needs.value) && (needs.byDefault || r.env(needs.name) != "")
}

func (r *asRatelimit) wrong(name, format string, args ...any) {
	r.errs = append(r.errs, usageMistake(fmt.Errorf("%s: "+format, append([]any{name}, args...)...)))
}

// on returns the value of a Boolean variable, or false if it is not set. It records an error if the
// value is not a Boolean.
func (r *asRatelimit) on(name string) bool {
	value := r.env(name)
	if value == "" {
		return false
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		r.wrong(name, "%q; want true or false", value)
	}
	return on
}

// turn assigns the value of a Boolean variable to *to, unless the flag is given on the command
// line.
func (r *asRatelimit) turn(flag string, to *bool, name string) {
	if on := r.on(name); !r.given(flag) {
		*to = on
	}
}

func (r *asRatelimit) port(name, otherwise string) string {
	value := cmp.Or(r.env(name), otherwise)
	if _, err := strconv.ParseUint(value, 10, 16); err != nil {
		r.wrong(name, "%q; want a port up to 65535", value)
	}
	return value
}

func (r *asRatelimit) addresses(c *serveCommand) {
	if at := net.JoinHostPort(r.env("HOST"), r.port("PORT", "8080")); !r.given("http") {
		c.HTTP = at
	}
	if at := net.JoinHostPort(r.env("GRPC_HOST"), r.port("GRPC_PORT", "8081")); !r.given("grpc") {
		c.GRPC = at
	}
	// The debug port of envoyproxy/ratelimit is open to all hosts. The admin listener of stint is
	// open only to this host, unless it requires a token.
	c.NoToken = c.AdminToken == ""
	if port := r.port("DEBUG_PORT", "6070"); !r.given("admin") {
		host := r.env("DEBUG_HOST")
		if ip, _ := netip.ParseAddr(host); c.NoToken && !ip.IsLoopback() { // IsLoopback is false for a host name
			if r.other("DEBUG_HOST", "localhost") {
				r.warnings = append(r.warnings, "DEBUG_HOST is ignored: without --admin-token-file the admin listener is on 127.0.0.1:"+port)
			}
			host = "127.0.0.1"
		}
		c.Admin = net.JoinHostPort(host, port)
	}
	if r.on("USE_PROMETHEUS") {
		if !r.given("metrics") {
			c.Metrics = cmp.Or(r.env("PROMETHEUS_ADDR"), ":9090")
		}
		if !r.given("envoy-metrics") {
			c.EnvoyMetrics = true
		}
	}
}

func (r *asRatelimit) tls(c *serveCommand) {
	if !r.on("GRPC_SERVER_USE_TLS") {
		return
	}
	if !r.given("tls-client-ca") {
		c.TLSClient = r.env("GRPC_CLIENT_TLS_CACERT")
	}
	if r.given("tls-cert") || r.given("tls-key") {
		return
	}
	c.TLSCert, c.TLSKey = r.env("GRPC_SERVER_TLS_CERT"), r.env("GRPC_SERVER_TLS_KEY")
	c.tlsOnlyGRPC = true
	if c.TLSCert == "" || c.TLSKey == "" {
		r.wrong("GRPC_SERVER_USE_TLS", "want GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY, too")
	}
}

func (r *asRatelimit) counting(c *serveCommand) {
	if !r.given("envoy-window") {
		if c.EnvoyWindow = "fixed"; r.on("USE_CALENDAR_MONTH_RATE_LIMIT") {
			c.EnvoyWindow = "calendar"
		}
	}
	if !r.given("envoy-headers") {
		if c.EnvoyHeaders = "none"; r.on("LIMIT_RESPONSE_HEADERS_ENABLED") {
			c.EnvoyHeaders = "upstream"
		}
	}
	for name, to := range map[string]*headerName{"LIMIT_LIMIT_HEADER": &c.EnvoyLimit,
		"LIMIT_REMAINING_HEADER": &c.EnvoyLeft, "LIMIT_RESET_HEADER": &c.EnvoyReset} {
		if value := r.env(name); value != "" && *to == "" {
			if err := to.UnmarshalText([]byte(value)); err != nil {
				r.wrong(name, "%w", err)
			}
		}
	}
	r.turn("envoy-stop-over-limit", &c.EnvoyStop, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT")
	r.turn("envoy-shadow", &c.EnvoyShadow, "SHADOW_MODE")
	r.turn("envoy-quota", &c.EnvoyQuota, "QUOTA_MODE")
	r.turn("envoy-metadata", &c.EnvoyMetadata, "RESPONSE_DYNAMIC_METADATA")
	r.turn("envoy-merge-domains", &c.EnvoyMerge, "MERGE_DOMAIN_CONFIG")
	if value := r.env("NEAR_LIMIT_RATIO"); value != "" {
		var err error
		if c.nearLimit, err = strconv.ParseFloat(value, 64); err != nil || !(c.nearLimit >= 0 && c.nearLimit <= 1) {
			r.wrong("NEAR_LIMIT_RATIO", "%q; want a share from 0 to 1, such as 0.8", value)
		}
		c.nearLimit = cmp.Or(c.nearLimit, math.SmallestNonzeroFloat64) // a NearLimit of 0 would mean the default
	}
}

func (r *asRatelimit) rules(c *serveCommand) {
	if r.given("envoy-config") {
		return
	}
	switch kind := cmp.Or(r.env("CONFIG_TYPE"), "FILE"); kind {
	case "FILE":
		c.EnvoyConfig = filepath.Join(cmp.Or(r.env("RUNTIME_ROOT"), "/srv/runtime_data/current"),
			r.env("RUNTIME_SUBDIRECTORY"), cmp.Or(r.env("RUNTIME_APPDIRECTORY"), "config"))
	case "GRPC_XDS_SOTW":
		c.xds = &server.EnvoyXDS{
			Server:       cmp.Or(r.env("CONFIG_GRPC_XDS_SERVER_URL"), "localhost:18000"),
			NodeID:       cmp.Or(r.env("CONFIG_GRPC_XDS_NODE_ID"), "default"),
			NodeMetadata: r.pairs("CONFIG_GRPC_XDS_NODE_METADATA", "="),
			Headers:      r.pairs("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", ":"),
			Healthy: r.on("FORCE_START_WITHOUT_INITIAL_CONFIG") &&
				!r.on("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),
		}
		if c.xds.TLS = r.on("CONFIG_GRPC_XDS_SERVER_USE_TLS"); c.xds.TLS {
			c.xds.CA = r.env("CONFIG_GRPC_XDS_SERVER_TLS_CACERT")
			c.xds.ServerName = r.env("CONFIG_GRPC_XDS_SERVER_TLS_SAN")
			c.xds.Cert = r.env("CONFIG_GRPC_XDS_CLIENT_TLS_CERT")
			c.xds.Key = r.env("CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
		}
		if value := r.env("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"); value != "" {
			var err error
			if c.xds.MaxMessage, err = strconv.Atoi(value); err != nil || c.xds.MaxMessage < 1 {
				r.wrong("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "%q; want a number of bytes", value)
			}
		}
	default:
		r.wrong("CONFIG_TYPE", "%q; want FILE or GRPC_XDS_SOTW", kind)
	}
}

// pairs parses a variable that holds a list of names and values, such as "zone=a,rack=7". The
// parameter between is the separator between a name and its value.
func (r *asRatelimit) pairs(name, between string) map[string]string {
	pairs := map[string]string{}
	for entry := range strings.SplitSeq(r.env(name), ",") {
		entry = strings.TrimSpace(entry)
		key, value, ok := strings.Cut(entry, between)
		switch {
		case ok && key != "":
			pairs[key] = value
		case entry != "":
			r.wrong(name, "%q; want a name and a value, such as zone%sa, between commas", entry, between)
		}
	}
	return pairs
}

func (r *asRatelimit) logging(c *serveCommand) {
	if value := r.env("LOG_LEVEL"); value != "" && !r.given("log-level") {
		level := strings.ToLower(value)
		switch level { // envoyproxy/ratelimit levels that slog does not have
		case "trace":
			level = "debug"
		case "warning":
			level = "warn"
		case "fatal", "panic":
			level = "error"
		}
		if err := c.LogLevel.UnmarshalText([]byte(level)); err != nil {
			r.wrong("LOG_LEVEL", "%w", err)
		}
	}
	if value := strings.ToLower(r.env("LOG_FORMAT")); value != "" && !r.given("log-format") {
		if c.LogFormat = value; value != "json" && value != "text" {
			r.wrong("LOG_FORMAT", "%q; want text or json", value)
		}
	}
}

// redis returns the URL of the store. The errors that it records do not contain the values of
// REDIS_URL and REDIS_AUTH, because these may hold passwords.
func (r *asRatelimit) redis() string {
	text := r.env(redisEnv)
	if text == "" {
		r.wrong(redisEnv, "not set; want host:port of a Redis server, or --store memory to count only in this process")
		return ""
	}
	addresses := strings.Split(text, ",")
	query := url.Values{}
	switch kind := strings.ToLower(cmp.Or(r.env("REDIS_TYPE"), "single")); kind {
	case "single":
		if len(addresses) > 1 {
			r.wrong(redisEnv, "several addresses; want one, or REDIS_TYPE=cluster or sentinel")
		}
	case "cluster":
	case "sentinel":
		if len(addresses) < 2 {
			r.wrong(redisEnv, "want the name of the master and the addresses of Sentinels: mymaster,host:26379,host:26379")
			return ""
		}
		query.Set("master_set", addresses[0])
		addresses = addresses[1:]
	default:
		r.wrong("REDIS_TYPE", "%q; want single, cluster or sentinel", kind)
	}
	first := addresses[0]
	switch {
	case strings.HasPrefix(first, "/"):
		first = "unix://" + first
	case !strings.Contains(first, "://"):
		first = "redis://" + first
	}
	u, err := url.Parse(first)
	if err != nil {
		r.wrong(redisEnv, "want host:port or a URL such as redis://host:6379/0")
		return ""
	}
	if r.on("REDIS_TLS") && u.Scheme == "redis" {
		u.Scheme = "rediss"
	}
	if auth := r.env("REDIS_AUTH"); auth != "" {
		name, password, named := strings.Cut(auth, ":")
		if !named {
			name, password = "", auth
		}
		u.User = url.UserPassword(name, password)
	}
	for key, values := range u.Query() {
		query[key] = values
	}
	query["addr"] = append(query["addr"], addresses[1:]...)
	u.RawQuery = query.Encode()
	if !r.on("REDIS_TLS") {
		return u.String()
	}
	files := tlsfiles.Files{CA: r.env("REDIS_TLS_CACERT"),
		Cert: r.env("REDIS_TLS_CLIENT_CERT"), Key: r.env("REDIS_TLS_CLIENT_KEY")}
	if err := files.Check("REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY"); err != nil {
		r.errs = append(r.errs, usageMistake(err))
	}
	return files.AddTo(u.String(), false)
}

func (r *asRatelimit) warn(logger *slog.Logger) {
	for _, text := range r.warnings {
		logger.Warn("stint: unsupported setting of envoyproxy/ratelimit", "setting", text)
	}
}
