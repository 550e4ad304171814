package config

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Gateway configures a gateway. The first group of fields can be set in files and by a program; the
// program takes precedence. The second group can be set only by a program. A field that is zero
// counts as not set.
type Gateway struct {
	// Routes map requests to upstreams. Routes for the host of a request take precedence over those
	// for any host; among routes for the same host, the longest prefix wins. Routes set by a
	// program replace those in files.
	Routes []Route
	// DialTimeout is the timeout for connecting to an upstream; 0 means 5 s.
	DialTimeout time.Duration
	// ResponseHeaderTimeout is the timeout from the end of the request to the beginning of the
	// response; 0 means one minute, and a negative value means no limit. A request body that keeps
	// arriving has no time limit.
	ResponseHeaderTimeout time.Duration
	// BodyTimeout is the maximum time for which a client may pause while it sends a request's body;
	// after that, it gets a 408. The timeout ends when the response begins, because the client and
	// the upstream may then exchange messages, as in gRPC. 0 means 10 s, and a negative value means
	// no limit.
	BodyTimeout time.Duration
	// MinBodyRate is the minimum rate, in bytes per second, at which a client must send a request's
	// body, averaged over BodyTimeout; 0 means 500.
	MinBodyRate int64
	// SendTimeout is the maximum time that a client may go without reading while there is response
	// data to send; 0 means 30 s.
	SendTimeout time.Duration
	// MaxBody is the maximum size of a request body, in bytes; 0 means no limit.
	MaxBody int64
	// PassUnusualPaths forwards requests with a raw backslash in the path or a raw "#", instead of
	// refusing them with a 400.
	PassUnusualPaths bool

	// The fields below can be set only by a program, not in files.

	// Reserved lists header fields that only trusted proxies may send, in addition to the usual
	// ones such as X-Forwarded-For. List every other field that upstreams trust.
	Reserved []string
	// TLS is the configuration for https upstreams; nil means the default of crypto/tls.
	TLS *tls.Config
	// NoHTTP2 disables HTTP/2 for https upstreams, even if they offer it.
	NoHTTP2 bool
	// TLSHandshakeTimeout is the timeout for the TLS handshake with an upstream; 0 means 5 s.
	TLSHandshakeTimeout time.Duration
	// IdleTimeout is the time for which unused connections to upstreams stay open; 0 means 90 s.
	// Keep it shorter than the idle timeout of the upstreams.
	IdleTimeout time.Duration
	// IdleConns is the maximum number of unused connections to each upstream that stay open; 0
	// means 256.
	IdleConns int
	// MaxConns is the maximum number of connections to an upstream; 0 means no limit. When the
	// maximum is reached, requests wait. Routes with different timeouts use separate connections.
	MaxConns int
	// Logger logs requests and failures; nil means slog.Default().
	Logger *slog.Logger
	// NoAccessLog turns off the access log. Requests that fail because of the gateway or its
	// upstream are still logged.
	NoAccessLog bool
	// AccessLogEvery makes the access log contain only one of every AccessLogEvery requests; 0
	// means all.
	AccessLogEvery int
	// AccessLogQuery also logs query strings, which often contain secrets.
	AccessLogQuery bool
}

// Route maps requests to an upstream.
type Route struct {
	// Host is the host that requests ask for, without a port, such as "api.example.com". "" matches
	// any host.
	Host string
	// PathPrefix is the beginning of the path, in whole segments: "/api" matches "/api" and
	// "/api/users", but not "/apis". "" matches any path.
	PathPrefix string
	// Upstream is the URL that requests are forwarded to. Its path is prepended to the path of the
	// request. The scheme is http, https, or h2c for HTTP/2 without TLS, which gRPC servers use.
	Upstream string
	// StripPrefix removes the prefix from the path before forwarding.
	StripPrefix bool
	// RewriteHost sets the Host field to the upstream's host, instead of the one that the client
	// sent.
	RewriteHost bool
	// DialTimeout and ResponseHeaderTimeout are the timeouts of this route; 0 means the gateway's.
	DialTimeout, ResponseHeaderTimeout time.Duration
}
