package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

type gatewayCommand struct {
	Upstream    string   `name:"upstream" placeholder:"URL" help:"Where requests go: http://, https:// or h2c://, and a host."`
	Route       []string `name:"route" placeholder:"ROUTE" sep:"none" help:"Where requests for a host, a path or both go: api.example.com=URL, /api=URL or api.example.com/v1=URL. The longest match wins. Can be repeated."`
	Listen      string   `name:"listen" placeholder:"ADDR" default:":8080" help:"Where clients connect. Default: ${default}."`
	StripPrefix bool     `name:"strip-prefix" help:"Remove the path of a --route from the path of the request."`
	RewriteHost bool     `name:"rewrite-host" help:"Send the upstream's host in requests, instead of the host that clients request."`
	Reserved    []string `name:"reserved" placeholder:"NAME" sep:"none" help:"A header field that only trusted proxies may send, in addition to the usual ones. Can be repeated."`

	UpstreamCA    string        `name:"upstream-ca" placeholder:"FILE" help:"Certificate authorities for upstreams with https, in PEM form, read at startup. Default: the system's."`
	UpstreamHTTP2 bool          `name:"upstream-http2" negatable:"" default:"true" help:"Use HTTP/2 for upstreams with https that offer it."`
	MaxConns      int           `name:"max-conns" placeholder:"N" help:"The maximum number of connections to an upstream; other requests wait. Default: unlimited."`
	ConnectTime   time.Duration `name:"connect-timeout" placeholder:"TIME" help:"How long connecting to an upstream may take. Default: as set in the policies, else ${connect_timeout}."`
	ResponseTime  time.Duration `name:"response-timeout" placeholder:"TIME" help:"How long an upstream may take to begin its response. Default: as set in the policies, else ${response_timeout}."`
	BodyTime      time.Duration `name:"body-timeout" placeholder:"TIME" help:"How long a client may be silent in the middle of a request's body. Default: as set in the policies, else ${body_timeout}."`
	IdleTime      time.Duration `name:"idle-timeout" placeholder:"TIME" help:"How long unused connections to upstreams stay open; keep it shorter than theirs. Default: ${idle_timeout}."`
	MaxBody       sizeFlag      `name:"max-body" placeholder:"SIZE" help:"The maximum size of a request's body, such as 10MiB. Default: as set in the policies, else any size."`

	AccessLog      bool `name:"access-log" negatable:"" default:"true" help:"Log every request, not only those that fail. At most 100 refused requests a second are logged."`
	AccessLogEvery int  `name:"access-log-every" placeholder:"N" help:"Log one request in N. Default: every request."`
	AccessLogQuery bool `name:"access-log-query" help:"Log query strings too, which often contain secrets."`

	daemonFlags

	routes []config.Route // the routes in Upstream and Route
}

func (*gatewayCommand) Help() string {
	return `Limits requests before it forwards them. All paths are forwarded to the upstream; probes are on --admin.
Routes come from --upstream and --route, or from gateway.routes in the configuration, whose changes take effect
at once; either flag replaces them. Files, signals and the store work as with serve.

    stint gateway --upstream http://127.0.0.1:3000 --config stint.yaml
    stint gateway --route /api=http://127.0.0.1:3000 --route static.example.com=http://127.0.0.1:3001
    stint gateway --config stint.yaml`
}

func (c *gatewayCommand) Validate() (err error) {
	if c.routes, err = c.parseRoutes(); err != nil {
		return err
	}
	switch {
	case len(c.routes) == 0 && c.Config == "":
		return errors.New("missing flags: --upstream=URL, --route=ROUTE, or --config=FILE with gateway.routes")
	case len(c.routes) == 0 && c.RewriteHost:
		return errors.New("--rewrite-host is for --upstream and --route; in the configuration set rewrite_host: true on a route")
	case len(c.Route) == 0 && c.StripPrefix:
		return errors.New("--strip-prefix is for --route; in the configuration set strip_prefix: true on a route")
	}
	for _, name := range c.Reserved {
		if !syntax.IsToken(name) {
			return fmt.Errorf("--reserved: invalid header name %q; want one such as X-User-ID", name)
		}
	}
	for name, n := range map[string]int{"max-conns": c.MaxConns, "access-log-every": c.AccessLogEvery} {
		if n < 0 {
			return fmt.Errorf("--%s: %d; want 1 or more", name, n)
		}
	}
	return c.daemonFlags.Validate()
}

func (c *gatewayCommand) Run(s *system) error {
	upstreams, err := c.tls()
	if err != nil {
		return err
	}
	daemon, err := c.configuration(s)
	if err != nil {
		return err
	}
	daemon.HTTP = c.Listen
	daemon.Gateway = &config.Gateway{
		Routes:                c.routes,
		Reserved:              c.Reserved,
		TLS:                   upstreams,
		NoHTTP2:               !c.UpstreamHTTP2,
		DialTimeout:           c.ConnectTime,
		ResponseHeaderTimeout: c.ResponseTime,
		BodyTimeout:           c.BodyTime,
		IdleTimeout:           c.IdleTime,
		MaxConns:              c.MaxConns,
		MaxBody:               int64(c.MaxBody),
		NoAccessLog:           !c.AccessLog,
		AccessLogEvery:        c.AccessLogEvery,
		AccessLogQuery:        c.AccessLogQuery,
	}
	if c.Config == "" {
		daemon.Logger.Info("stint: without --config " + builtInLimits)
	}
	return runDaemon(daemon)
}

// tls returns the TLS configuration for HTTPS upstreams, or nil for the default.
func (c *gatewayCommand) tls() (*tls.Config, error) {
	if c.UpstreamCA == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := (tlsfiles.Files{CA: c.UpstreamCA}).Apply(config); err != nil {
		return nil, fmt.Errorf("--upstream-ca: %w", err)
	}
	return config, nil
}
