package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/syntax"
)

// miss is the reason why a tier or a policy does not apply to a request. The constant fits means
// that the tier or policy applies.
type miss uint8

const (
	fits miss = iota
	missHost
	missPath
	missMethod
	missHeader
	missClaim
	missNetwork
	missUnless
	missIdentity
	missTier
)

// condition is a compiled [Match]. A request fits a condition if it fits all parts of the condition
// that are not empty.
type condition struct {
	hosts    []string // lower case; "*.example.com" matches all subdomains
	paths    []pathpattern.Pattern
	methods  []string
	headers  []requirement
	claims   []requirement
	networks []netip.Prefix
}

// requirement is a header or claim with its accepted values. If values is nil, any value except ""
// is accepted.
type requirement struct {
	name   string
	values []string
}

func (w *requirement) fits(value string) bool {
	return value != "" && (w.values == nil || slices.Contains(w.values, value))
}

// fitsLines reports whether at least one line of a header field fits or, if every is true, whether
// all lines fit and there is at least one. Applications differ in which line they read, so a limit
// applies if one line fits, and an exemption only if all lines fit.
func (w *requirement) fitsLines(lines []string, every bool) bool {
	for _, line := range lines {
		if w.fits(line) != every {
			return !every
		}
	}
	return every && len(lines) > 0
}

// miss returns the first part of the condition that a request does not fit, or the constant fits if
// there is none. It checks cheap parts first. If every is true, all lines of a header field must
// fit, otherwise at least one; see fitsLines.
func (c *condition) miss(f *facts, every bool) miss {
	if len(c.methods) > 0 && !c.hasMethod(f.method) {
		return missMethod
	}
	if len(c.paths) > 0 && c.pathOf(f) == nil {
		return missPath
	}
	if len(c.hosts) > 0 && !c.hasHost(syntax.Host(f.in.Host)) {
		return missHost
	}
	for i := range c.headers {
		if !c.headers[i].fitsLines(f.lines(c.headers[i].name), every) {
			return missHeader
		}
	}
	for i := range c.claims {
		if !c.claims[i].fits(f.claim(c.claims[i].name)) {
			return missClaim
		}
	}
	if len(c.networks) > 0 && !c.hasNetworkOf(f.clientAddr()) {
		return missNetwork
	}
	return fits
}

// hasMethod reports whether a method fits. As in net/http patterns, GET also matches HEAD.
func (c *condition) hasMethod(method string) bool {
	return slices.Contains(c.methods, method) || method == http.MethodHead && slices.Contains(c.methods, http.MethodGet)
}

func (c *condition) hasHost(host string) bool {
	return slices.ContainsFunc(c.hosts, func(pattern string) bool { return fitsHost(pattern, host) })
}

func (c *condition) hasNetworkOf(client netip.Addr) bool {
	return slices.ContainsFunc(c.networks, func(n netip.Prefix) bool { return n.Contains(client) })
}

// pathOf returns the first pattern that the request's path fits, or nil.
func (c *condition) pathOf(f *facts) *pathpattern.Pattern {
	for i := range c.paths {
		if f.fits(&c.paths[i]) {
			return &c.paths[i]
		}
	}
	return nil
}

// clause is a condition and an exception to it.
type clause struct {
	// when is the condition; nil if every request fits. unless is the exception; nil if there is
	// none.
	when, unless *condition
}

// mayFit reports whether a request may fit the clause, judging only by the beginning of its path.
// It rules out most policies for most requests, and is small enough to be inlined. Calling miss for
// every policy instead takes twice as many instructions.
func (c *clause) mayFit(f *facts) bool {
	if c.when == nil || len(c.when.paths) == 0 || f.folded != "" {
		return true
	}
	for i := range c.when.paths {
		if c.when.paths[i].Begins(f.path) {
			return true
		}
	}
	return false
}

// miss returns the part of the clause that a request does not fit, or the constant fits if there is
// none. The argument exempts tells whether the clause exempts requests from limits. If so, all
// lines of a header field must fit the condition, but one line is enough for the exception;
// otherwise, it is the other way around.
func (c *clause) miss(f *facts, exempts bool) miss {
	if c.when != nil {
		if m := c.when.miss(f, exempts); m != fits {
			return m
		}
	}
	if c.unless != nil && c.unless.miss(f, !exempts) == fits {
		return missUnless
	}
	return fits
}

// isRoute reports whether a condition has a path, method or host. Headers and claims alone say who
// sends a request, not what it asks for.
func (c *condition) isRoute() bool { return c != nil && len(c.paths)+len(c.methods)+len(c.hosts) > 0 }

// fitsHost reports whether a host without a port fits a pattern. The pattern is in lower case.
func fitsHost(pattern, host string) bool {
	if under, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(host) > len(under) && strings.EqualFold(host[len(host)-len(under):], under)
	}
	return strings.EqualFold(pattern, host)
}
