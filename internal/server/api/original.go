package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// Header fields in which proxies describe the original request. There are two families of fields:
// X-Forwarded and X-Original.
const (
	forwardedMethod = "X-Forwarded-Method"
	forwardedURI    = "X-Forwarded-Uri"
	forwardedHost   = "X-Forwarded-Host"
	originalMethod  = "X-Original-Method"
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url"
)

var errNotDescribed = errors.New("the proxy does not describe the original request; want X-Forwarded-Method and X-Forwarded-Uri, " +
	"or X-Original-Method and X-Original-URI or X-Original-URL")

// originalOf returns the request that a trusted proxy asks about. It does not set Peer and Header.
//
// A proxy that writes one family of fields passes on the other family as the client sent it. In the
// other family, the client could name a path that has no limits. So originalOf refuses a request
// that has both families.
func originalOf(r *http.Request) (policy.Input, error) {
	forwarded := anyOf(r.Header, forwardedMethod, forwardedURI)
	original := anyOf(r.Header, originalMethod, originalURI, originalURL)
	switch {
	case forwarded && original:
		return policy.Input{}, errors.New("there are both X-Forwarded and X-Original fields, and one may come from the client; " +
			"make the proxy remove those that it does not write")
	case forwarded:
		return readOriginal(r, forwardedMethod, forwardedURI)
	case anyOf(r.Header, originalURI) && anyOf(r.Header, originalURL):
		return policy.Input{}, errors.New("there are both X-Original-URI and X-Original-URL, and one may come from the client; make the proxy remove one")
	case anyOf(r.Header, originalURL):
		return readOriginal(r, originalMethod, originalURL)
	case original:
		return readOriginal(r, originalMethod, originalURI)
	}
	return policy.Input{}, errNotDescribed
}

func readOriginal(r *http.Request, methodField, targetField string) (policy.Input, error) {
	method, noMethod := single(r.Header, methodField)
	target, noTarget := single(r.Header, targetField)
	if err := errors.Join(noMethod, noTarget); err != nil {
		return policy.Input{}, err
	}
	if !syntax.IsToken(method) {
		return policy.Input{}, fmt.Errorf("%s is not a method", methodField)
	}
	in := policy.Input{Method: method, Host: r.Host}
	if _, ok := r.Header[forwardedHost]; ok && methodField == forwardedMethod {
		var err error
		if in.Host, err = single(r.Header, forwardedHost); err != nil {
			return policy.Input{}, err
		}
	}
	u, ok := parseTarget(target)
	if targetField == originalURL {
		if u, ok = parseURL(target); ok {
			in.Host = u.Host
		}
	}
	if !ok || !utf8.ValidString(target) { // some servers mistake invalid UTF-8 for spaces
		return policy.Input{}, fmt.Errorf("%s is malformed", targetField)
	}
	if !syntax.IsHost(in.Host) {
		return policy.Input{}, errors.New("the request has no host, or one that applications could mistake for another; make the proxy refuse it")
	}
	in.Path, in.RawPath = u.Path, u.RawPath
	return in, nil
}

// parseURL parses an absolute URL. It refuses a URL without a path, because proxies build the URL
// from the host and the path: if the client sends a host with a question mark, the path becomes
// part of the query.
func parseURL(s string) (*url.URL, bool) {
	u, err := url.ParseRequestURI(s)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") &&
		strings.HasPrefix(u.Path, "/")
}

// anyOf reports whether any of the named fields has a value. An empty value does not count, because
// some proxies remove a field by setting it to "".
func anyOf(h http.Header, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(h[name], func(value string) bool { return value != "" })
	})
}

// single returns the value of a field that must occur exactly once.
func single(h http.Header, name string) (string, error) {
	switch values := h[name]; {
	case len(values) == 0:
		return "", fmt.Errorf("%s is missing", name)
	case len(values) > 1:
		return "", fmt.Errorf("%s occurs %d times, and one may come from the client; make the proxy replace it", name, len(values))
	default:
		return values[0], nil
	}
}
