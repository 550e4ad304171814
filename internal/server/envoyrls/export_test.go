package envoyrls

import (
	"context"
	"net"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Domains returns how many domains are configured, and Limits how many limits.
func (c *Config) Domains() int { return len(c.domains) }

// Limits returns how many limits are configured.
func (c *Config) Limits() int { return len(c.rules) }

// Decoder returns a function that decodes requests, each in the memory of the one before.
func Decoder() func(message []byte) (*rlsv3.RateLimitRequest, error) {
	e := &exchange{}
	return func(message []byte) (*rlsv3.RateLimitRequest, error) {
		err := e.decode(message)
		return e.request, err
	}
}

// DialWith replaces TCP.
func (x *XDS) DialWith(dial func(ctx context.Context, address string) (net.Conn, error)) {
	x.dial = dial
}
