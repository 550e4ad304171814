package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/routecheck"
	"github.com/stint-limiter/stint/internal/syntax"
)

// Default values for a [config.Gateway].
const (
	DefaultDialTimeout           = 5 * time.Second
	DefaultTLSHandshakeTimeout   = 5 * time.Second
	DefaultBodyTimeout           = 10 * time.Second
	DefaultResponseHeaderTimeout = time.Minute
	DefaultIdleTimeout           = 90 * time.Second
	DefaultIdleConns             = 256
	// defaultMinBodyRate is in bytes per second. It is also the default of Apache's mod_reqtimeout.
	// Even a slow dial-up modem sends faster.
	defaultMinBodyRate = 500
	defaultSendTimeout = 30 * time.Second
)

// Validate returns an error that lists all mistakes in the settings that a program passes to [New].
func Validate(c *config.Gateway) error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gateway: "+format, args...)) }

	table := routes{}
	for i := range c.Routes {
		r := &c.Routes[i]
		if err := routecheck.All(r.Host, r.PathPrefix, r.Upstream); err != nil {
			mistake("Routes[%d]: %w", i, err)
		} else if r.DialTimeout < 0 || r.ResponseHeaderTimeout < 0 {
			mistake("Routes[%d]: a timeout is below 0; want a positive time, or 0 for the gateway's timeout", i)
		} else if !table.add(newRoute(r)) {
			mistake("Routes[%d] is for the same host %q and prefix %q as an earlier one; want one route for both", i,
				r.Host, r.PathPrefix)
		}
	}
	for i, name := range c.Reserved {
		if !syntax.IsToken(name) {
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
		{"MinBodyRate", c.MinBodyRate}, {"SendTimeout", int64(c.SendTimeout)},
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
