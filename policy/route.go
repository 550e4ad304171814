package policy

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/words"
)

// Gateway is what a configuration says about a gateway. What is zero it does not say.
type Gateway struct {
	Routes []Route
	// DialTimeout, ResponseHeaderTimeout and BodyTimeout are how long connecting to an upstream may take, how long its
	// response, and how long a client may be silent in the middle of a request's body.
	DialTimeout, ResponseHeaderTimeout, BodyTimeout time.Duration
	// MinBodyRate is how many bytes of a request's body a client has to send in a second, on average over the BodyTimeout.
	MinBodyRate int64
	// SendTimeout is how long a client may take nothing of a response that waits to be sent.
	SendTimeout time.Duration
	// MaxBody is how many bytes the body of a request may have.
	MaxBody int64
	// PassUnusualPaths passes on requests with a raw backslash in the path or a raw "#".
	PassUnusualPaths bool
}

// Route says where a gateway passes requests on to.
type Route struct {
	// Host is the name in the request, without a port: "api.example.com". "" is any.
	Host string
	// PathPrefix is how the path begins, in whole segments: "/api" is for "/api" and "/api/users", not for "/apis". "" is
	// any path.
	PathPrefix string
	// Upstream is the URL to pass requests to. Its path goes before that of the request. The scheme is http, https, or
	// h2c for HTTP/2 without TLS, which gRPC servers speak.
	Upstream string
	// StripPrefix takes the prefix away from the path before it is passed on.
	StripPrefix bool
	// RewriteHost names the upstream's host in the Host field. Otherwise that is the one the client sent.
	RewriteHost bool
	// DialTimeout and ResponseHeaderTimeout are those of this route; 0 are the gateway's.
	DialTimeout, ResponseHeaderTimeout time.Duration
}

// Validate reports everything that is wrong with the route, in words that fit wherever it was written.
func (r *Route) Validate() error {
	errs := []error{checkHost(r.Host), checkPrefix(r.PathPrefix), checkUpstream(r.Upstream)}
	if r.DialTimeout < 0 || r.ResponseHeaderTimeout < 0 {
		errs = append(errs, errors.New("a timeout is below 0; want some time, or 0 for that of the gateway"))
	}
	return errors.Join(errs...)
}

// Matches returns which requests the route is for, in one form for all ways to write it. Two routes must not be
// for the same.
func (r *Route) Matches() (host, prefix string) {
	return strings.ToLower(words.Host(r.Host)), strings.TrimRight(r.PathPrefix, "/")
}

func checkHost(host string) error {
	name := words.Host(host)
	if host != "" && (name == "" || !strings.EqualFold(name, host) || strings.ContainsAny(name, "*/ ")) {
		return fmt.Errorf("%q is no host; want a name without port or wildcard, such as api.example.com", host)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if prefix != "" && prefix[0] != '/' || strings.ContainsAny(prefix, "%?#") || dotted(prefix) {
		return fmt.Errorf("%q is no beginning of a path; want one such as /api, decoded and without dot segments", prefix)
	}
	return nil
}

// maxPort is the last port that there is.
const maxPort = 1<<16 - 1

// checkUpstream does not show what may be a password.
func checkUpstream(text string) error {
	const want = "want a URL such as http://127.0.0.1:3000, with http, https or h2c"
	u, err := url.Parse(text)
	var broken *url.Error
	switch {
	case errors.As(err, &broken):
		return fmt.Errorf("this is no upstream: %w; %s", broken.Err, want)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Hostname() == "":
		return fmt.Errorf("%q is no upstream; %s", u.Redacted(), want)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || dotted(u.Path):
		return fmt.Errorf("the upstream %q; want it without user, query, fragment and dot segments", u.Redacted())
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > maxPort {
			return fmt.Errorf("the upstream %q has the port %s; want 1 to %d", u.Redacted(), port, maxPort)
		}
	}
	return nil
}

// dotted reports whether a path has dot segments.
func dotted(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." })
}
