package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/server/gateway"
)

// gatewayCommand is a reverse proxy.
type gatewayCommand struct {
	Upstream    string   `name:"upstream" placeholder:"URL" help:"Where requests go: http://, https:// or h2c://, and a host."`
	Route       []string `name:"route" placeholder:"ROUTE" sep:"none" help:"Where requests for a host, a path or both go: api.example.com=URL, /api=URL or api.example.com/v1=URL. The longest fits."`
	Listen      string   `name:"listen" placeholder:"ADDR" default:":8080" help:"Where clients connect. Default: ${default}."`
	RewriteHost bool     `name:"rewrite-host" help:"Name the upstream's host in requests, instead of the one that clients ask for."`
	MaxBody     int64    `name:"max-body" placeholder:"BYTES" help:"How large a request's body may be. Default: any size."`
	AccessLog   bool     `name:"access-log" negatable:"" default:"true" help:"Log every request, and not only those that fail."`

	daemonFlags
}

// Help is the detailed help.
func (*gatewayCommand) Help() string {
	return `Requests are held to the policies before they are passed on. All paths are the upstream's; probes are on --admin.
Files, signals and the store are as with serve.

    stint gateway --upstream http://127.0.0.1:3000 --config stint.yaml
    stint gateway --route /api=http://127.0.0.1:3000 --route static.example.com=http://127.0.0.1:3001`
}

// Validate is called when the flags have been read.
func (c *gatewayCommand) Validate() error {
	if c.Upstream == "" && len(c.Route) == 0 {
		return errors.New("missing flags: --upstream=URL, or --route=ROUTE")
	}
	for _, text := range c.Route {
		if _, err := parseRoute(text); err != nil {
			return err
		}
	}
	return c.daemonFlags.Validate()
}

// parseRoute reads a route such as "api.example.com/v1=http://127.0.0.1:3000".
func parseRoute(text string) (gateway.Route, error) {
	from, to, ok := strings.Cut(text, "=")
	if !ok || from == "" || to == "" {
		return gateway.Route{}, fmt.Errorf("--route: %q; want a host, a path or both, an equals sign and a URL, such as /api=http://127.0.0.1:3000", text)
	}
	host, path, ok := strings.Cut(from, "/")
	if ok {
		path = "/" + path
	}
	return gateway.Route{Host: host, PathPrefix: path, Upstream: to}, nil
}

// Run serves until a signal ends it.
func (c *gatewayCommand) Run(s *system) error {
	var routes []gateway.Route
	if c.Upstream != "" {
		routes = append(routes, gateway.Route{Upstream: c.Upstream})
	}
	for _, text := range c.Route {
		route, err := parseRoute(text)
		if err != nil {
			return err
		}
		routes = append(routes, route)
	}
	for i := range routes {
		routes[i].RewriteHost = c.RewriteHost
	}
	config := c.configuration(s)
	config.HTTP = c.Listen
	config.Gateway = &gateway.Config{Routes: routes, MaxBody: c.MaxBody, AccessLog: gateway.AccessLog{Off: !c.AccessLog}}
	if c.Config == "" {
		config.Logger.Info("stint: without --config " + builtInLimits)
	}
	return runDaemon(config)
}
