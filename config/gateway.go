package config

import "time"

// Gateway is what a configuration says about a gateway. What is zero it does not say.
type Gateway struct {
	Routes []Route
	// DialTimeout, ResponseHeaderTimeout and BodyTimeout are how long connecting to an upstream may
	// take, how long its response, and how long a client may be silent in the middle of a request's
	// body.
	DialTimeout, ResponseHeaderTimeout, BodyTimeout time.Duration
	// MinBodyRate is how many bytes of a request's body a client has to send in a second, on
	// average over the BodyTimeout.
	MinBodyRate int64
	// SendTimeout is how long a client may take nothing of a response that waits to be sent.
	SendTimeout time.Duration
	// MaxBody is how many bytes the body of a request may have.
	MaxBody int64
	// PassUnusualPaths passes on requests with a raw backslash in the path or a raw "#".
	PassUnusualPaths bool
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
	// RewriteHost names the upstream's host in the Host field. Otherwise that is the one the client
	// sent.
	RewriteHost bool
	// DialTimeout and ResponseHeaderTimeout are those of this route; 0 are the gateway's.
	DialTimeout, ResponseHeaderTimeout time.Duration
}
