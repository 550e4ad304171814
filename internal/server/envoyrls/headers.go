package envoyrls

import (
	"cmp"
	"fmt"
	"slices"
)

// Headers says which header fields answers ask Envoy to add. They are about the limit that matters
// most: one that is exceeded, else the one with the least left.
type Headers uint8

const (
	// HeadersDefault is HeadersAll with [Sliding] and HeadersNone with [Fixed]: whoever wants
	// answers as envoyproxy/ratelimit gives them gets those of its defaults.
	HeadersDefault Headers = iota
	// HeadersNone adds none.
	HeadersNone
	// HeadersUpstream adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, or what
	// [HeaderNames] calls them, as envoyproxy/ratelimit does if configured.
	HeadersUpstream
	// HeadersAll adds those, X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, and
	// when a request is denied Retry-After, unless no waiting helps, and X-RateLimit-Denial, an id
	// for "stint why", if there is an observer. Resets are seconds from now.
	HeadersAll
)

var headersNames = [...]string{"default", "none", "upstream", "all"}

// ParseHeaders reads "default", "none", "upstream" or "all". "" is the default.
func ParseHeaders(name string) (Headers, error) {
	i := slices.Index(headersNames[:], cmp.Or(name, "default"))
	if i < 0 {
		return 0, fmt.Errorf("envoyrls: headers %q; want none, upstream, all or default", name)
	}
	return Headers(i), nil
}

// HeaderNames renames header fields. An empty name is the default.
type HeaderNames struct{ Limit, Remaining, Reset string }
