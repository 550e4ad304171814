package envoyrls

import (
	"context"
	"net"
)

// Domains returns how many domains are configured, and Limits how many limits.
func (c *Config) Domains() int { return len(c.domains) }

// Limits returns how many limits are configured.
func (c *Config) Limits() int { return len(c.rules) }

// DialWith replaces TCP.
func (x *XDS) DialWith(dial func(ctx context.Context, address string) (net.Conn, error)) {
	x.dial = dial
}
