package envoyrls

import (
	"cmp"
	"fmt"
	"slices"
)

// Headers selects the header fields that answers ask Envoy to add. They describe the limit that
// matters most: one that is exceeded, else the one with the least left.
type Headers uint8

const (
	// HeadersDefault is HeadersAll with [Sliding], and HeadersNone with [Fixed] and [Calendar],
	// which is also the default of envoyproxy/ratelimit.
	HeadersDefault Headers = iota
	// HeadersNone adds no fields.
	HeadersNone
	// HeadersUpstream adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, or the names
	// in [HeaderNames], as envoyproxy/ratelimit does if configured.
	HeadersUpstream
	// HeadersAll adds the fields of HeadersUpstream, and X-RateLimit-Limit, X-RateLimit-Remaining
	// and X-RateLimit-Reset. When a request is denied, it also adds Retry-After, unless waiting
	// does not help, and, if there is an observer, X-RateLimit-Denial, an id for "stint why".
	// Resets are in seconds from now.
	HeadersAll
)

var headersNames = [...]string{"default", "none", "upstream", "all"}

// ParseHeaders parses "default", "none", "upstream" or "all". "" means the default.
func ParseHeaders(name string) (Headers, error) {
	i := slices.Index(headersNames[:], cmp.Or(name, "default"))
	if i < 0 {
		return 0, fmt.Errorf("envoyrls: headers %q; want none, upstream, all or default", name)
	}
	return Headers(i), nil
}

// HeaderNames renames header fields. An empty name means the default.
type HeaderNames struct{ Limit, Remaining, Reset string }
