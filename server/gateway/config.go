package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
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

// Config sets up a [Gateway]. What it leaves at zero the configuration of the guard's set may say, see [policy.Gateway]; only
// routes are needed, from here or there.
type Config struct {
	// Routes say which requests go where. Those of a request's host come before those of any host, and of these the one
	// with the longest prefix is taken. Without any they are those of the set in force.
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
	// BodyTimeout is how long a client may be silent in the middle of a request's body: 408 after that. In the long run it has to
	// send [policy.Gateway.MinBodyRate]. The bound ends with the
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
	// MaxConns is how many connections an upstream has at most, over which requests wait; 0 means any number. Routes whose
	// timeouts differ have connections of their own.
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
type Route = policy.Route

// Validate reports everything that is wrong with the Config.
func (c *Config) Validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gateway: "+format, args...)) }

	table := routes{}
	for i := range c.Routes {
		r := &c.Routes[i]
		if err := r.Validate(); err != nil {
			mistake("Routes[%d]: %w", i, err)
		} else if !table.add(newRoute(r)) {
			mistake("Routes[%d] is for the same host %q and prefix %q as an earlier one; want one route for both", i, r.Host, r.PathPrefix)
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
		return &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return nil
}
