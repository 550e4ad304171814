package main

import (
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/routecheck"
)

func (c *gatewayCommand) parseRoutes() ([]config.Route, error) {
	var routes []config.Route
	flags := map[routecheck.Match]string{}
	add := func(flag string, r config.Route) error {
		r.RewriteHost, r.StripPrefix = c.RewriteHost, c.StripPrefix && r.PathPrefix != ""
		if err := routecheck.All(r.Host, r.PathPrefix, r.Upstream); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		match := routecheck.MatchOf(r.Host, r.PathPrefix)
		if other, ok := flags[match]; ok {
			return fmt.Errorf("%s matches the same requests as %s; remove one of them", flag, other)
		}
		flags[match] = flag
		routes = append(routes, r)
		return nil
	}
	if c.Upstream != "" {
		if err := add("--upstream", config.Route{Upstream: c.Upstream}); err != nil {
			return nil, err
		}
	}
	for _, text := range c.Route {
		from, route, err := parseRoute(text)
		if err == nil {
			err = add("--route "+from, route)
		}
		if err != nil {
			return nil, err
		}
	}
	return routes, nil
}

// parseRoute parses a route such as "api.example.com/v1=http://127.0.0.1:3000". It also returns the
// part before the equals sign.
func parseRoute(text string) (from string, r config.Route, err error) {
	from, to, ok := strings.Cut(text, "=")
	if !ok || from == "" || to == "" {
		return "", config.Route{}, fmt.Errorf("--route: %q; want a host, a path or both, an equals sign and a URL, such as /api=http://127.0.0.1:3000",
			text)
	}
	host, path, ok := strings.Cut(from, "/")
	if ok {
		path = "/" + path
	}
	return from, config.Route{Host: host, PathPrefix: path, Upstream: to}, nil
}
