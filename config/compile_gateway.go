package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/routecheck"
)

const maxRoutes = 1000

func (c *compiler) gateway() {
	doc, key := c.doc.Gateway, "gateway"
	if doc == nil {
		return
	}
	says := func(name string) bool { return c.has(join(key, name)) }
	keys := []string{"routes", "connect_timeout", "response_timeout", "body_timeout", "min_body_rate", "send_timeout",
		"max_body", "unusual_paths"}
	switch {
	case !slices.ContainsFunc(keys, says):
		c.mistake(key, "is empty; want routes, or leave it out")
	case len(doc.Routes) == 0 && says("routes"):
		c.mistake(key+".routes", "there are none; want at least one, such as {upstream: http://127.0.0.1:3000}, or leave it out")
	}
	c.config.Gateway = Gateway{
		DialTimeout:           c.timeout(key+".connect_timeout", doc.ConnectTimeout),
		ResponseHeaderTimeout: c.timeout(key+".response_timeout", doc.ResponseTimeout),
		BodyTimeout:           c.timeout(key+".body_timeout", doc.BodyTimeout),
		MinBodyRate:           int64(doc.MinBodyRate),
		SendTimeout:           c.timeout(key+".send_timeout", doc.SendTimeout),
		MaxBody:               int64(doc.MaxBody),
		PassUnusualPaths:      doc.UnusualPaths == "pass",
	}
	if says("unusual_paths") && doc.UnusualPaths != "refuse" && doc.UnusualPaths != "pass" {
		c.mistake(key+".unusual_paths", "%q; want refuse or pass", doc.UnusualPaths)
	}
	taken := map[routecheck.Match]string{} // keys of the routes so far
	for i := range doc.Routes {
		at := item(key+".routes", i)
		for _, r := range c.routes(at, &doc.Routes[i]) {
			match := routecheck.MatchOf(r.Host, r.PathPrefix)
			if other, ok := taken[match]; ok && !c.lacks(other) {
				c.mistake(at, "another route has the same host and path, at %s; want one route for both", c.where(c.nearest(other)))
				break
			}
			taken[match] = at
			c.config.Gateway.Routes = append(c.config.Gateway.Routes, r)
		}
		if len(c.config.Gateway.Routes) > maxRoutes {
			c.mistake(at, "more than %d routes so far, counting every host with every path; want fewer", maxRoutes)
			return
		}
	}
}

// routes returns a route for each combination of a host and a path in a section. It returns none if
// a host or path is invalid.
func (c *compiler) routes(key string, doc *routeDoc) []Route {
	r := Route{
		Upstream: doc.Upstream, StripPrefix: doc.StripPrefix, RewriteHost: doc.RewriteHost,
		DialTimeout:           c.timeout(key+".connect_timeout", doc.ConnectTimeout),
		ResponseHeaderTimeout: c.timeout(key+".response_timeout", doc.ResponseTimeout),
	}
	if !c.has(key + ".upstream") {
		c.mistake(key, "has no upstream; want a URL such as http://127.0.0.1:3000")
	} else if err := routecheck.Upstream(r.Upstream); err != nil {
		c.mistake(key+".upstream", "%v", err)
	}
	if r.StripPrefix && !c.has(key+".path") {
		c.mistake(key+".strip_prefix", "has no effect without a path")
	}
	hosts, good := c.each(key+".host", doc.Host, func(host string) (string, error) {
		return host, routecheck.Host(host)
	})
	prefixes, alsoGood := c.each(key+".path", doc.Path, prefixOf)
	if !good || !alsoGood {
		return nil
	}
	var routes []Route
	for _, host := range hosts {
		for _, prefix := range prefixes {
			r.Host, r.PathPrefix = host, prefix
			if routes = append(routes, r); len(routes) > maxRoutes {
				return routes // there are too many already
			}
		}
	}
	return routes
}

// each calls read with each element of a list. It returns the results, and whether all elements are
// valid. For an empty list, the only result is "", which matches all requests.
func (c *compiler) each(key string, elements list, read func(string) (string, error)) (values []string, ok bool) {
	if len(elements) == 0 {
		return []string{""}, true
	}
	ok = true
	for i, text := range elements {
		value, err := read(text)
		if err != nil {
			c.mistake(at(key, i, elements), "%v", err)
			ok = false
		}
		values = append(values, value)
	}
	return values, ok
}

// prefixOf returns the common prefix of all paths that a pattern matches. It accepts only patterns
// that end in ** and have no other variables, so that it is clear which of several patterns is the
// longest.
func prefixOf(text string) (string, error) {
	p, err := pathpattern.Parse(text)
	if err != nil {
		return "", err
	}
	prefix, ok := p.Prefix()
	if !ok {
		return "", fmt.Errorf("%q; a route matches everything below a path; want something like /api/**", text)
	}
	return prefix, nil
}

// timeout returns a timeout, which is 0 if the key is not set. It adds a mistake if the key is set
// but the timeout is not positive.
func (c *compiler) timeout(key string, d duration) time.Duration {
	if d <= 0 && c.has(key) {
		c.mistake(key, "must be longer than 0s; want something like 10s")
	}
	return time.Duration(d)
}
