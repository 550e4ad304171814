package main

import (
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/server/gateway"
)

// routes returns what the flags say about routes.
func (c *gatewayCommand) routes() ([]gateway.Route, error) {
	var routes []gateway.Route
	type match struct{ host, prefix string }
	flags := map[match]string{}
	add := func(flag string, r gateway.Route) error {
		r.RewriteHost, r.StripPrefix = c.RewriteHost, c.StripPrefix && r.PathPrefix != ""
		if err := r.Validate(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		host, prefix := r.Matches()
		if other, ok := flags[match{host, prefix}]; ok {
			return fmt.Errorf("%s is for the same requests as %s; want one of them", flag, other)
		}
		flags[match{host, prefix}] = flag
		routes = append(routes, r)
		return nil
	}
	if c.Upstream != "" {
		if err := add("--upstream", gateway.Route{Upstream: c.Upstream}); err != nil {
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

// parseRoute reads a route such as "api.example.com/v1=http://127.0.0.1:3000", and returns what is before the equals sign
// too.
func parseRoute(text string) (from string, r gateway.Route, err error) {
	from, to, ok := strings.Cut(text, "=")
	if !ok || from == "" || to == "" {
		return "", gateway.Route{}, fmt.Errorf("--route: %q; want a host, a path or both, an equals sign and a URL, such as /api=http://127.0.0.1:3000", text)
	}
	host, path, ok := strings.Cut(from, "/")
	if ok {
		path = "/" + path
	}
	return from, gateway.Route{Host: host, PathPrefix: path, Upstream: to}, nil
}
