// Package routecheck validates the routes of a gateway. Its error messages suit routes from a
// configuration, from flags and from Go code.
package routecheck

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/syntax"
)

// Match identifies the requests that a route matches, in normalized form. No two routes may have
// the same Match.
type Match struct{ Host, Prefix string }

// MatchOf returns the Match of a route with this host and path prefix.
func MatchOf(host, prefix string) Match {
	return Match{strings.ToLower(syntax.Host(host)), strings.TrimRight(prefix, "/")}
}

// All reports every mistake in a route.
func All(host, prefix, upstream string) error {
	return errors.Join(Host(host), Prefix(prefix), Upstream(upstream))
}

// Host reports a mistake in the host of a route; "" means any host.
func Host(host string) error {
	name := syntax.Host(host)
	if host != "" && (name == "" || !strings.EqualFold(name, host) || strings.ContainsAny(name, "*/ ")) {
		return fmt.Errorf("invalid host %q; want a name without port or wildcard, such as api.example.com", host)
	}
	return nil
}

// Prefix reports a mistake in the path prefix of a route; "" means any path.
func Prefix(prefix string) error {
	if prefix != "" && prefix[0] != '/' || strings.ContainsAny(prefix, "%?#") || pathpattern.Dotted(prefix) {
		return fmt.Errorf("invalid path prefix %q; want one such as /api, decoded and without dot segments", prefix)
	}
	return nil
}

const maxPort = 1<<16 - 1

// Upstream reports a mistake in the URL of an upstream. The error does not show parts of the URL that
// may be secret.
func Upstream(text string) error {
	const want = "want a URL such as http://127.0.0.1:3000, with http, https or h2c"
	hidden := fmt.Errorf("invalid upstream, not shown because it may contain a password; %s", want)
	secret := strings.Contains(text, "@") // if it is unescaped, a password can be in any part of the URL
	u, err := url.Parse(text)
	formed := err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "h2c") && u.Hostname() != ""
	var broken *url.Error
	switch {
	case secret && !formed:
		return hidden
	case errors.As(err, &broken):
		return fmt.Errorf("invalid upstream: %w; %s", broken.Err, want)
	case !formed:
		return fmt.Errorf("invalid upstream %q; %s", text, want)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || pathpattern.Dotted(u.Path):
		return fmt.Errorf("invalid upstream %q; want it without user, query, fragment and dot segments", label.URL(text))
	}
	if port := u.Port(); port != "" {
		switch n, err := strconv.Atoi(port); {
		case err == nil && n >= 1 && n <= maxPort:
		case secret:
			return hidden
		default:
			return fmt.Errorf("the upstream %q has the port %s; want 1 to %d", text, port, maxPort)
		}
	}
	return nil
}
