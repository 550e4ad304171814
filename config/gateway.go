package config

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Gateway sets up a gateway. The first part is what files can say; a program can say it too, and
// takes precedence. The second part is for programs only. A zero value is not set.
type Gateway struct {
	// Routes decide which requests go where. Routes for a request's host come before those for any
	// host, and of these the longest prefix wins. Those of a program replace those of the files.
	Routes []Route
	// DialTimeout is for connecting to an upstream; 0 means 5 s.
	DialTimeout time.Duration
	// ResponseHeaderTimeout is from the end of the request to the beginning of the response; 0
	// means one minute, below 0 no limit. Nothing limits how long a body takes that keeps coming.
	ResponseHeaderTimeout time.Duration
	// BodyTimeout is how long a client may be silent in the middle of a request's body; after that
	// it gets a 408. It applies until the response begins, because then upstream and client may
	// hold a conversation, as gRPC does. 0 means 10 s, below 0 no limit.
	BodyTimeout time.Duration
	// MinBodyRate is how many bytes of a request's body a client has to send in a second, on
	// average over the BodyTimeout; 0 means 500.
	MinBodyRate int64
	// SendTimeout is how long a client may take nothing of a response that waits to be sent; 0
	// means 30 s.
	SendTimeout time.Duration
	// MaxBody is how many bytes the body of a request may have; 0 means any number.
	MaxBody int64
	// PassUnusualPaths passes on requests with a raw backslash in the path or a raw "#".
	PassUnusualPaths bool

	// What follows is for programs: files cannot set it.

	// Reserved are header fields that only trusted proxies may send, in addition to the usual ones
	// such as X-Forwarded-For: whatever else upstreams trust.
	Reserved []string
	// TLS is for upstreams with https; nil is the default of crypto/tls.
	TLS *tls.Config
	// NoHTTP2 speaks HTTP/1.1 to upstreams with https even if they offer HTTP/2.
	NoHTTP2 bool
	// TLSHandshakeTimeout is for the TLS handshake after connecting; 0 means 5 s.
	TLSHandshakeTimeout time.Duration
	// IdleTimeout is how long unused connections to upstreams stay open; 0 means 90 s. Keep it
	// shorter than the upstream's.
	IdleTimeout time.Duration
	// IdleConns is how many unused connections to each upstream stay open; 0 means 256.
	IdleConns int
	// MaxConns is how many connections an upstream may have; requests beyond wait. 0 means any
	// number. Routes whose timeouts differ have connections of their own.
	MaxConns int
	// Logger logs requests and failures. It is slog.Default() unless set.
	Logger *slog.Logger
	// NoAccessLog logs only requests that fail because of the gateway or its upstream.
	NoAccessLog bool
	// AccessLogEvery logs one request in so many; 0 means all.
	AccessLogEvery int
	// AccessLogQuery logs query strings too, which often hold secrets.
	AccessLogQuery bool
}

// Route says where a gateway passes requests on to.
type Route struct {
	// Host is the name in the request, without a port: "api.example.com". "" is any.
	Host string
	// PathPrefix is how the path begins, in whole segments: "/api" is for "/api" and "/api/users",
	// not for "/apis". "" is any path.
	PathPrefix string
	// Upstream is the URL to pass requests to. Its path goes before that of the request. The scheme
	// is http, https, or h2c for HTTP/2 without TLS, which gRPC servers speak.
	Upstream string
	// StripPrefix takes the prefix away from the path before it is passed on.
	StripPrefix bool
	// RewriteHost names the upstream's host in the Host field, instead of the one the client sent.
	RewriteHost bool
	// DialTimeout and ResponseHeaderTimeout are those of this route; 0 are the gateway's.
	DialTimeout, ResponseHeaderTimeout time.Duration
}
