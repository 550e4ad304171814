package server

import (
	"cmp"
	_ "embed" // for the built-in policies
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/server/gateway"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/observe"
)

// Config configures a [Server]. Addresses are host:port; an empty address disables the listener. A
// token file has one token per line, optionally with its holder's name: "alice: 8a9f7d1b…".
type Config struct {
	// Policies is the path of a file or a directory, as in [config.Load]. If it is empty, built-in
	// limits apply to every client: 600 requests a minute, up to 1200 at once, and 10,000 an hour.
	Policies string
	// Store is "memory", or a Redis URL as in package redisstore. If it is empty, the policies set
	// the store; their default is memory. Redis need not be reachable when the server starts.
	Store string
	// StorePrefix is the prefix of every key in Redis; see redisstore.Config.Prefix. If it is
	// empty, the policies set the prefix; their default is "stint".
	StorePrefix string
	// StoreMemory is the maximum size of a store in memory, in bytes. If it is 0, the policies set
	// the maximum; their default is 1 GiB. With Redis, it must be 0.
	StoreMemory int64
	// BreakerFailures, BreakerProbe and BreakerRetry determine when to stop calling Redis because
	// it keeps failing, and when to try again; see package resilience. If a field is 0, the
	// policies set it.
	BreakerFailures            int
	BreakerProbe, BreakerRetry time.Duration

	// HTTP, GRPC, Admin and Metrics are the addresses to listen on. GRPC requires rules for Envoy.
	// Metrics serves /metrics and probes without a token, to anyone who can connect.
	HTTP, GRPC, Admin, Metrics string
	// MaxConnections is the maximum number of open connections per listener. The server immediately
	// closes any further connection. The default is 10,000, enough for more than a thousand Envoys
	// with eight threads each. 10,000 idle clients of a gateway use about 200 MB of memory.
	MaxConnections int
	// Gateway makes HTTP a reverse proxy that applies the policies. The gateway section of the
	// policies can set routes, timeouts and sizes that are not set in Gateway. One of the two must
	// set routes; all other fields are optional. If Gateway has no Logger, the gateway uses this
	// Config's Logger.
	Gateway *config.Gateway
	// Envoy configures Envoy's rate limit service.
	Envoy Envoy

	// TLSCert and TLSKey enable TLS on all listeners. TLSCert is a PEM file with the certificate
	// and its chain, and TLSKey is a PEM file with the key. Set both or neither. ClientCA is a PEM
	// file with certificate authorities; if it is set, clients need a certificate from one of them.
	// With TLSOnlyGRPC, only gRPC uses TLS, as in envoyproxy/ratelimit: the other listeners use
	// plain HTTP, and require no certificate.
	TLSCert, TLSKey, ClientCA string
	TLSOnlyGRPC               bool

	// APITokens is a file of bearer tokens for the JSON API. APIPublic lets anyone who can connect
	// use the API, and also /json unless Envoy.Tokens is set. If APITokens, APIPublic and ClientCA
	// are all unset, the API serves only callers on this host, except for /v1/usage. Any caller of
	// the API can use up the limits of any subject. Forward-auth serves only proxies that the
	// policies trust.
	APITokens string
	APIPublic bool
	// APIAdHoc lets API callers send limits in their requests.
	APIAdHoc bool

	// AdminTokens is a file of bearer tokens for Admin. A token can have a role: the holder of
	// "prometheus (read): 51d3e6a9…" may read but not change anything. If AdminTokens is empty,
	// Admin must be a loopback address, and only callers on this host can read it. A request
	// through a proxy on this host looks like one from this host, unless the proxy adds
	// X-Forwarded-For or a similar field. Probes need no token.
	AdminTokens string
	// AdminOpen lets callers on this host make changes without a token. It is for demos.
	AdminOpen bool

	// Observe configures what operators see and when alerts fire. Its Logger is replaced by this
	// Config's Logger, and its Webhooks by those of the policies.
	Observe observe.Config

	// Drain is the time for which the server keeps serving after it reports that it is not ready.
	Drain time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Envoy configures Envoy's rate limit service. The policies' failure section determines what
// happens when the store fails.
type Envoy struct {
	// Rules is a directory of rules in the format of envoyproxy/ratelimit. XDS names a server that
	// sends rules instead. If neither is set, the service is off.
	Rules string
	XDS   *EnvoyXDS
	// MergeDomains allows several files to configure the same domain.
	MergeDomains bool
	// Tokens is a file of bearer tokens for gRPC and /json. Without it, anyone who can connect may
	// use gRPC, and only callers on this host may use /json. If client certificates are required,
	// only their holders may use gRPC and /json. If the API is public, anyone who can connect may
	// use /json. Refunds of hits require tokens or client certificates.
	Tokens string
	// Window selects how limits are counted; the default is EnvoySliding.
	Window EnvoyWindow
	// StopOverLimit applies to fixed windows: if one descriptor of a request is over its limit, the
	// other descriptors are not charged. Sliding windows ignore it.
	StopOverLimit bool
	// Headers selects the header fields that Envoy adds to responses. The default is
	// EnvoyHeadersAll, or EnvoyHeadersNone with fixed windows.
	Headers EnvoyHeaders
	// HeaderLimit, HeaderRemaining and HeaderReset replace the names RateLimit-Limit,
	// RateLimit-Remaining and RateLimit-Reset.
	HeaderLimit, HeaderRemaining, HeaderReset string
	// Metadata adds dynamic metadata to answers.
	Metadata bool
	// Stats adds metrics with the names that envoyproxy/ratelimit uses. NearLimit is a share of
	// every limit: hits above this share count as near the limit. The default of NearLimit is 0.8.
	Stats     bool
	NearLimit float64
	// ShadowMode answers every request with OK. QuotaMode treats every limit as if it were in quota
	// mode: a request passes if one of its descriptors has room.
	ShadowMode, QuotaMode bool
}

// EnvoyWindow selects how Envoy's service counts limits.
type EnvoyWindow string

const (
	// EnvoySliding never allows more hits than the limit in any window. A denied request is not
	// charged, except for hits at the end of a stream, which have already been used.
	EnvoySliding EnvoyWindow = "sliding"
	// EnvoyFixed counts hits in fixed windows, as envoyproxy/ratelimit does.
	EnvoyFixed EnvoyWindow = "fixed"
	// EnvoyCalendar is like EnvoyFixed, but a month is a calendar month in UTC instead of 30 days.
	EnvoyCalendar EnvoyWindow = "calendar"
)

// EnvoyHeaders selects the header fields that Envoy adds to responses.
type EnvoyHeaders string

const (
	EnvoyHeadersNone EnvoyHeaders = "none"
	// EnvoyHeadersUpstream selects the fields of envoyproxy/ratelimit: RateLimit-Limit,
	// RateLimit-Remaining and RateLimit-Reset.
	EnvoyHeadersUpstream EnvoyHeaders = "upstream"
	// EnvoyHeadersAll selects the fields of EnvoyHeadersUpstream, the same fields with the prefix
	// X-, and, for denied requests, Retry-After and X-RateLimit-Denial.
	EnvoyHeadersAll EnvoyHeaders = "all"
)

// EnvoyXDS names the server that sends the rules of Envoy's service over xDS, such as Envoy
// Gateway. It must be an aggregated discovery service that supports the state-of-the-world
// protocol. Until the first rules arrive, the [Server] is not ready.
type EnvoyXDS struct {
	// Server is the host:port of the server.
	Server string
	// NodeID and NodeMetadata identify this client to the server. Headers is the metadata of the
	// gRPC call.
	NodeID                string
	NodeMetadata, Headers map[string]string
	// TLS encrypts the connection. CA, Cert and Key are PEM files, which are read again for every
	// connection. CA has the certificate authorities that the client trusts, instead of the
	// system's. Cert and Key are the client certificate and its key, for a server that requires a
	// certificate. ServerName is the name in the server's certificate if it differs from the host
	// in Server.
	TLS                       bool
	CA, Cert, Key, ServerName string
	// MaxMessage is the maximum size of a message from the server, in bytes. The default is 16 MiB.
	MaxMessage int
	// Healthy makes /healthcheck succeed before the first rules arrive, as in envoyproxy/ratelimit
	// with FORCE_START_WITHOUT_INITIAL_CONFIG. It does not make the server ready.
	Healthy bool
}

func (x *EnvoyXDS) files() tlsfiles.Files { return tlsfiles.Files{CA: x.CA, Cert: x.Cert, Key: x.Key} }

func (x *EnvoyXDS) validate() error {
	wrong := mistakes{x.files().Check("Config.Envoy.XDS.Cert", "Config.Envoy.XDS.Key")}
	_, _, err := net.SplitHostPort(x.Server)
	wrong.when(err != nil, "Config.Envoy.XDS.Server: %w; want host:port, such as envoy-gateway:18001", err)
	wrong.when(!x.TLS && x.files() != (tlsfiles.Files{}),
		"Config.Envoy.XDS has certificates, but the connection is without TLS")
	wrong.when(x.MaxMessage < 0, "Config.Envoy.XDS.MaxMessage is %d; want 1 or more", x.MaxMessage)
	return errors.Join(wrong...)
}

func (e *Envoy) options() (envoyrls.Options, error) {
	var wrong mistakes
	window, err := envoyrls.ParseWindow(string(e.Window))
	wrong.when(err != nil, "Config.Envoy.Window is %w", err)
	headers, err := envoyrls.ParseHeaders(string(e.Headers))
	wrong.when(err != nil, "Config.Envoy.Headers is %w", err)
	wrong.when(e.NearLimit < 0 || e.NearLimit > 1, "Config.Envoy.NearLimit is %v; want a share from 0 to 1", e.NearLimit)
	for _, of := range []struct{ field, name string }{
		{"HeaderLimit", e.HeaderLimit}, {"HeaderRemaining", e.HeaderRemaining}, {"HeaderReset", e.HeaderReset},
	} {
		wrong.when(of.name != "" && !syntax.IsToken(of.name),
			"Config.Envoy.%s is %q; want the name of a header field, such as X-Limit", of.field, of.name)
	}
	return envoyrls.Options{
		Window: window, StopOverLimit: e.StopOverLimit,
		Headers: headers, Metadata: e.Metadata,
		HeaderNames: envoyrls.HeaderNames{Limit: e.HeaderLimit, Remaining: e.HeaderRemaining, Reset: e.HeaderReset},
		ShadowMode:  e.ShadowMode, QuotaMode: e.QuotaMode,
	}, errors.Join(wrong...)
}

const defaultNearLimit = 0.8

const defaultMaxConnections = 10_000

//go:embed default.yaml
var builtIn []byte

// validate sets defaults. It returns an [*stint.InvalidError] that lists every mistake, or nil.
func (c *Config) validate() error {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.MaxConnections = cmp.Or(c.MaxConnections, defaultMaxConnections)
	wrong := mistakes{c.validateTLS()}
	wrong.when(c.MaxConnections < 0, "Config.MaxConnections is %d; want 1 or more", c.MaxConnections)
	wrong.when(c.BreakerFailures < 0, "Config.BreakerFailures is %d; want 1 or more", c.BreakerFailures)
	for _, t := range []struct {
		field string
		value time.Duration
	}{{"BreakerProbe", c.BreakerProbe}, {"BreakerRetry", c.BreakerRetry}} {
		wrong.when(t.value != 0 && t.value < contract.MinBreakerTime, "Config.%s is %v; want %v or more",
			t.field, t.value, contract.MinBreakerTime)
	}
	wrong.when(c.HTTP == "" && c.GRPC == "" && c.Admin == "" && c.Metrics == "",
		"there is nowhere to listen; want an address such as :8080")
	for _, at := range []struct{ field, address string }{
		{"HTTP", c.HTTP}, {"GRPC", c.GRPC}, {"Admin", c.Admin}, {"Metrics", c.Metrics},
	} {
		_, _, err := net.SplitHostPort(at.address)
		wrong.when(at.address != "" && err != nil, "Config.%s: %w; want host:port, such as :8080 or 127.0.0.1:8080",
			at.field, err)
	}
	if c.Gateway != nil {
		wrong = append(wrong, gateway.Validate(c.Gateway))
		wrong.when(c.HTTP == "", "Config.Gateway needs an address in Config.HTTP")
	}
	_, err := c.Envoy.options()
	wrong = append(wrong, err)
	if c.Envoy.XDS != nil {
		wrong = append(wrong, c.Envoy.XDS.validate())
		wrong.when(c.Envoy.Rules != "", "Config.Envoy.Rules and Config.Envoy.XDS cannot be used together")
	}
	wrong.when(c.TLSOnlyGRPC && c.GRPC == "", "Config.TLSOnlyGRPC needs an address in Config.GRPC")
	wrong.when(c.GRPC != "" && c.Envoy.Rules == "" && c.Envoy.XDS == nil,
		"Config.GRPC is for Envoy's rate limit service, which has no rules; want Config.Envoy.Rules or Config.Envoy.XDS")
	wrong.when(c.APIPublic && c.APITokens != "", "Config.APIPublic and Config.APITokens cannot be used together")
	wrong.when(c.AdminOpen && c.AdminTokens != "", "Config.AdminOpen and Config.AdminTokens cannot be used together")
	wrong = append(wrong, contract.Mistakes(c.Observe.Alerts.Validate()))
	wrong.when(c.Drain < 0, "Config.Drain is %v; want 0 or more", c.Drain)
	return invalid(errors.Join(wrong...))
}

// mistakes collects the mistakes in a [Config]. It may contain nils, which [errors.Join] drops.
type mistakes []error

func (m *mistakes) when(condition bool, format string, args ...any) {
	if condition {
		*m = append(*m, fmt.Errorf(format, args...))
	}
}

func invalid(mistake error) error {
	if mistake == nil {
		return nil
	}
	return &stint.InvalidError{Err: mistake}
}

func (c *Config) load() (read *config.Config, err error) {
	if c.Policies != "" {
		read, err = config.Load(c.Policies)
	} else {
		read, err = config.Parse("default.yaml", builtIn)
	}
	if err != nil {
		return nil, err
	}
	if where := c.storeOf(read); where != memoryStore && c.StoreMemory != 0 {
		return nil, invalid(fmt.Errorf("Config.StoreMemory is for the store in memory, and the store is %s; "+
			"for decisions without Redis set failure.memory in the policies", label.URL(where)))
	}
	return read, invalid(c.accept(read))
}

func (c *Config) storeOf(read *config.Config) string {
	return cmp.Or(c.Store, read.Store.URL, memoryStore)
}

var errNoRoutes = errors.New("the gateway has no routes; " +
	"want Config.Gateway.Routes, or gateway.routes in Config.Policies")

// accept returns an error if c has a gateway, and neither c nor the policies that were read set any
// routes.
func (c *Config) accept(read *config.Config) error {
	if c.Gateway != nil && len(c.Gateway.Routes) == 0 && len(read.Gateway.Routes) == 0 {
		return errNoRoutes
	}
	return nil
}
