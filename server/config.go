package server

import (
	"bytes"
	_ "embed" // for the built-in policies
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/envoyrls"
	"github.com/stint-limiter/stint/server/gateway"
)

// Config sets up a [Server]. Addresses are host:port; an empty one is a listener that there is not. Files of tokens have one
// to a line, alone or after the name of its holder: "alice: 8a9f7d1b…".
type Config struct {
	// Policies is a file or a directory, as [policy.Load] reads it. Without it a built-in limit on every client is in
	// force: 600 a minute, 1200 at once, 10,000 an hour.
	Policies string
	// Envoy is a directory with rules of envoyproxy/ratelimit, as [envoyrls.Load] reads it, and EnvoyOptions how they are
	// applied. What happens when the store fails is up to the policies, the logger is this one's, and who may ask and who may
	// give hits back depends on EnvoyTokens, TLS and API.
	Envoy        string
	EnvoyOptions envoyrls.Options
	// EnvoyMerge lets several files configure one domain. See [envoyrls.MergeDomains].
	EnvoyMerge bool
	// EnvoyTokens is a file of bearer tokens for gRPC and /json. Without it everybody is answered over gRPC who can connect,
	// and on /json callers on this host, if there are no client certificates and the API is not public. Hits are given back only
	// if there are tokens or client certificates.
	EnvoyTokens string
	// Store is "memory", or the URL of a Redis as package redisstore reads it. "" leaves it to the policies, whose
	// default is memory. Redis need not be there at the start.
	Store string
	// StoreMemory is how many bytes a store in memory may use; 0 leaves it to the policies, whose default is 1 GiB. It is a
	// mistake if the store is a Redis.
	StoreMemory int64

	// HTTP, GRPC and Admin are where to listen. GRPC is of no use without Envoy.
	HTTP, GRPC, Admin string
	// MaxConnections is how many connections each listener may have at the same time: DefaultMaxConnections unless set. Those
	// beyond are closed at once.
	MaxConnections int
	// Gateway makes HTTP a reverse proxy behind the policies, which may have its routes.
	Gateway *gateway.Config

	// TLS is for all listeners.
	TLS TLS
	// API says who may use the JSON API, and how.
	API API
	// AdminTokens is a file of bearer tokens for Admin, which may have roles: the holder of "prometheus (read): 51d3e6a9…" may
	// look, and change nothing. Without it only callers on this host may look, on a loopback address, and nobody may change
	// anything; a proxy on this host that does not say that it is one looks like such a caller. Probes need no token.
	AdminTokens string
	// AdminOpen lets callers on this host change things too where there are no tokens. It is for demonstrations.
	AdminOpen bool

	// Observe says what is shown of what happens, and when to raise an alarm. The logger is this one's.
	Observe observe.Config

	// Drain is how long to go on serving after the server has said that it is not ready any more.
	Drain time.Duration
	// Logger is slog.Default() unless set.
	Logger *slog.Logger
}

// DefaultMaxConnections is [Config.MaxConnections] unless set: more than a thousand Envoys with eight threads each, and idle
// clients of a gateway in some 200 MB.
const DefaultMaxConnections = 10_000

//go:embed default.yaml
var builtIn []byte

// API says who may use the JSON API, and how. Forward-auth is for proxies that the policies trust, and for nobody else.
type API struct {
	// Tokens is a file of bearer tokens.
	Tokens string
	// Public answers everybody who can connect, also on /json. Without it and without Tokens or client certificates, only callers
	// on this host are answered. Whoever is answered can use up anybody's limits.
	Public bool
	// ChargeKey is a file with the key by which charges are signed. Processes that share it can settle and refund each
	// other's; without one each process amends what it has charged itself.
	ChargeKey string
	// AdHoc accepts limits that callers send along.
	AdHoc bool
}

// validate fills in the defaults, and reports every mistake.
func (c *Config) validate() error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultMaxConnections
	}
	errs := []error{c.TLS.validate()}
	if c.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("%d connections; want 1 or more (--max-clients)", c.MaxConnections))
	}
	if c.HTTP == "" && c.GRPC == "" && c.Admin == "" {
		errs = append(errs, errors.New("there is nowhere to listen; want an address such as :8080"))
	}
	for _, at := range []struct{ name, address string }{{HTTP, c.HTTP}, {GRPC, c.GRPC}, {Admin, c.Admin}} {
		if at.address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(at.address); err != nil {
			errs = append(errs, fmt.Errorf("the address of %s: %w; want host:port, such as :8080 or 127.0.0.1:8080", at.name, err))
		}
	}
	if c.Gateway != nil {
		errs = append(errs, c.Gateway.Validate())
		if c.HTTP == "" {
			errs = append(errs, errors.New("a gateway needs an address for HTTP (--listen)"))
		}
	}
	if c.GRPC != "" && c.Envoy == "" {
		errs = append(errs, errors.New("gRPC is Envoy's rate limit service, and there are no rules for it (--envoy-config)"))
	}
	if c.API.Public && c.API.Tokens != "" {
		errs = append(errs, errors.New("the API is public and has tokens; want one of them"))
	}
	if c.AdminOpen && c.AdminTokens != "" {
		errs = append(errs, errors.New("the admin listener is open and has tokens; want one of them"))
	}
	errs = append(errs, c.Observe.Alerts.Validate())
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("draining for %v; want 0 or more", c.Drain))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// load reads the policies.
func (c *Config) load() (set *policy.Set, err error) {
	if c.Policies != "" {
		set, err = policy.Load(c.Policies)
	} else {
		set, err = policy.Parse("default.yaml", builtIn)
	}
	if err != nil {
		return nil, err
	}
	return set, c.accept(set)
}

var errNoRoutes = errors.New("server: the gateway has nowhere to pass requests on to; " +
	"want --upstream or --route, or gateway.routes in the configuration (--config)")

// accept returns what is missing from policies that are good by themselves.
func (c *Config) accept(set *policy.Set) error {
	if c.Gateway != nil && len(c.Gateway.Routes) == 0 && len(set.Gateway().Routes) == 0 {
		return errNoRoutes
	}
	return nil
}

// Bounds on the key by which charges are signed, in bytes.
const (
	minChargeKey = 16
	maxChargeKey = 4 << 10
)

// chargeKey reads the key by which charges are signed; nil if there is none.
func (a *API) chargeKey(logger *slog.Logger) ([]byte, error) {
	if a.ChargeKey == "" {
		return nil, nil
	}
	files, err := reload.ReadFiles(maxChargeKey, a.ChargeKey)
	if err != nil {
		return nil, fmt.Errorf("server: the key for charges: %w", err)
	}
	key := bytes.TrimSpace(files[0].Text)
	if len(key) < minChargeKey || len(key) > maxChargeKey {
		return nil, fmt.Errorf("server: the key for charges: %s has %d bytes; want %d to %d", a.ChargeKey, len(key), minChargeKey, maxChargeKey)
	}
	warnReadable(logger, "charge key", a.ChargeKey)
	return key, nil
}
