package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/routecheck"
	"github.com/stint-limiter/stint/internal/words"
)

// Defaults of a [Config].
const (
	DefaultDialTimeout           = 5 * time.Second
	DefaultTLSHandshakeTimeout   = 5 * time.Second
	DefaultBodyTimeout           = 10 * time.Second
	DefaultResponseHeaderTimeout = time.Minute
	DefaultIdleTimeout           = 90 * time.Second
	DefaultIdleConns             = 256
)

// Config sets up a [Gateway]. The type Gateway of package server documents its fields. The guard's
// set may set what it leaves at zero, see [config.Gateway]; only routes are required, from here or
// there.
type Config struct {
	Routes   []Route
	Reserved []string

	TLS     *tls.Config
	NoHTTP2 bool

	DialTimeout           time.Duration
	TLSHandshakeTimeout   time.Duration
	BodyTimeout           time.Duration
	ResponseHeaderTimeout time.Duration
	IdleTimeout           time.Duration
	IdleConns             int
	MaxConns              int
	MaxBody               int64

	Logger         *slog.Logger
	NoAccessLog    bool
	AccessLogEvery int
	AccessLogQuery bool
}

// Route decides where requests go.
type Route = config.Route

// Validate reports everything that is wrong with the Config.
func (c *Config) Validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gateway: "+format, args...)) }

	table := routes{}
	for i := range c.Routes {
		r := &c.Routes[i]
		if err := routecheck.All(r.Host, r.PathPrefix, r.Upstream); err != nil {
			mistake("Routes[%d]: %w", i, err)
		} else if r.DialTimeout < 0 || r.ResponseHeaderTimeout < 0 {
			mistake("Routes[%d]: a timeout is below 0; want some time, or 0 for that of the gateway", i)
		} else if !table.add(newRoute(r)) {
			mistake("Routes[%d] is for the same host %q and prefix %q as an earlier one; want one route for both", i,
				r.Host, r.PathPrefix)
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
		{"DialTimeout", int64(c.DialTimeout)}, {"TLSHandshakeTimeout", int64(c.TLSHandshakeTimeout)},
		{"IdleTimeout", int64(c.IdleTimeout)},
		{"IdleConns", int64(c.IdleConns)}, {"MaxConns", int64(c.MaxConns)}, {"MaxBody", c.MaxBody},
		{"AccessLogEvery", int64(c.AccessLogEvery)},
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
