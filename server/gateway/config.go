package gateway

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/words"
)

// What a [Config] leaves at zero.
const (
	DefaultDialTimeout           = 5 * time.Second
	DefaultTLSHandshakeTimeout   = 5 * time.Second
	DefaultBodyTimeout           = 10 * time.Second
	DefaultResponseHeaderTimeout = time.Minute
	DefaultIdleTimeout           = 90 * time.Second
	DefaultIdleConns             = 256
)

// Config sets up a [Gateway]. Only Routes are needed.
type Config struct {
	// Routes say which requests go where. Those of a request's host come before those of any host, and of these the one
	// with the longest prefix is taken.
	Routes []Route
	// Reserved are header fields that only trusted proxies may send, beside those that the package's documentation names:
	// whatever else upstreams believe.
	Reserved []string

	// TLS is for upstreams with https; nil is that of crypto/tls.
	TLS *tls.Config
	// NoHTTP2 has upstreams with https spoken to in HTTP/1.1 even if they offer HTTP/2.
	NoHTTP2 bool

	// DialTimeout is for connecting to an upstream; 0 means DefaultDialTimeout.
	DialTimeout time.Duration
	// TLSHandshakeTimeout is for what comes after that with https; 0 means DefaultTLSHandshakeTimeout.
	TLSHandshakeTimeout time.Duration
	// BodyTimeout is how long a client may be silent in the middle of a request's body: 408 after that. It ends with the
	// beginning of the response, from when on the upstream may hold a conversation, as gRPC does. 0 means DefaultBodyTimeout,
	// below 0 as long as the [http.Server] lets it; otherwise it takes the place of the server's ReadTimeout.
	BodyTimeout time.Duration
	// ResponseHeaderTimeout is from the end of the request to the beginning of the response; 0 means
	// DefaultResponseHeaderTimeout, below 0 any time. Nothing limits how long a body takes that keeps coming.
	ResponseHeaderTimeout time.Duration
	// IdleTimeout is how long connections to upstreams are kept unused; 0 means DefaultIdleTimeout. Let it be
	// shorter than the upstream's.
	IdleTimeout time.Duration
	// IdleConns is how many are kept unused for each upstream; 0 means DefaultIdleConns.
	IdleConns int
	// MaxConns is how many connections an upstream has at most, over which requests wait; 0 means any number.
	MaxConns int
	// MaxBody is how many bytes the body of a request may have; 0 means any number.
	MaxBody int64

	// Logger has an entry for every request, as AccessLog says, and tells of failures. It is slog.Default() unless set.
	Logger *slog.Logger
	// AccessLog says which requests are logged.
	AccessLog AccessLog
}

// AccessLog says which requests are logged, and how much of them. Requests that fail for the gateway's or its upstream's
// sake always are.
type AccessLog struct {
	// Off logs none of the others.
	Off bool
	// Every logs one of so many; 0 means all.
	Every int
	// Query logs query strings too, which often hold secrets.
	Query bool
}

// Route says where requests go.
type Route struct {
	// Host is the name in the request, without a port: "api.example.com". "" is any.
	Host string
	// PathPrefix is how the path begins, in whole segments: "/api" is for "/api" and "/api/users", not for "/apis". "" is
	// any path.
	PathPrefix string
	// Upstream is the URL to pass requests to. Its path goes before that of the request. The scheme is http, https, or
	// h2c for HTTP/2 without TLS, which gRPC servers speak.
	Upstream string
	// StripPrefix takes the prefix away from the path before it is passed on.
	StripPrefix bool
	// RewriteHost names the upstream's host in the Host field. Otherwise that is the one the client sent.
	RewriteHost bool
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, DefaultDialTimeout)
	c.TLSHandshakeTimeout = cmp.Or(c.TLSHandshakeTimeout, DefaultTLSHandshakeTimeout)
	c.BodyTimeout = max(cmp.Or(c.BodyTimeout, DefaultBodyTimeout), 0)
	c.ResponseHeaderTimeout = max(cmp.Or(c.ResponseHeaderTimeout, DefaultResponseHeaderTimeout), 0)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.IdleConns = cmp.Or(c.IdleConns, DefaultIdleConns)
	c.AccessLog.Every = cmp.Or(c.AccessLog.Every, 1)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// compile checks all of the Config and returns its routes.
func (c *Config) compile() (routes, error) {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gateway: "+format, args...)) }

	if len(c.Routes) == 0 {
		mistake("there are no Routes; want at least one, such as {Upstream: \"http://127.0.0.1:3000\"}")
	}
	table := routes{}
	for i := range c.Routes {
		r, err := c.Routes[i].compile()
		if err != nil {
			mistake("Routes[%d].%w", i, err)
			continue
		}
		if !table.add(r) {
			mistake("Routes[%d] is for the same host %q and prefix %q as an earlier one; want one route for both", i, r.host, r.prefix)
		}
	}
	for i, name := range c.Reserved {
		if !words.IsToken(name) {
			mistake("Reserved[%d] is %q; want the name of a header field, such as X-User-ID", i, name)
		}
	}
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"DialTimeout", int64(c.DialTimeout)}, {"TLSHandshakeTimeout", int64(c.TLSHandshakeTimeout)}, {"IdleTimeout", int64(c.IdleTimeout)},
		{"IdleConns", int64(c.IdleConns)}, {"MaxConns", int64(c.MaxConns)}, {"MaxBody", c.MaxBody}, {"AccessLog.Every", int64(c.AccessLog.Every)},
	} {
		if v.value < 0 {
			mistake("%s is below 0; want 0 for its default, or more", v.name)
		}
	}
	if errs != nil {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return table, nil
}

// compile checks a route.
func (r *Route) compile() (*route, error) {
	host := words.Host(r.Host)
	if r.Host != "" && (host == "" || !strings.EqualFold(host, r.Host) || strings.ContainsAny(host, "*/ ")) {
		return nil, fmt.Errorf("Host is %q; want a name without port or wildcard, such as api.example.com, or \"\" for any", r.Host)
	}
	if r.PathPrefix != "" && r.PathPrefix[0] != '/' || dotted(r.PathPrefix) || strings.ContainsAny(r.PathPrefix, "%?#") {
		return nil, fmt.Errorf("PathPrefix is %q; want a path such as /api, decoded and without dot segments", r.PathPrefix)
	}
	u, err := url.Parse(r.Upstream)
	switch {
	case err != nil:
		return nil, fmt.Errorf("Upstream is no URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Hostname() == "" || dotted(u.Path):
		return nil, fmt.Errorf("Upstream is %q; want a URL such as http://127.0.0.1:3000, with http, https or h2c", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("Upstream is %q; want it without user, query and fragment", u.Redacted())
	}
	compiled := &route{
		host: strings.ToLower(host), prefix: strings.TrimRight(r.PathPrefix, "/"), name: u.Host,
		target: u, http2: u.Scheme == "h2c", strip: r.StripPrefix, rewriteHost: r.RewriteHost,
	}
	if compiled.http2 {
		u.Scheme = "http"
	}
	return compiled, nil
}
