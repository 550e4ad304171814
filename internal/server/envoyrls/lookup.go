package envoyrls

import (
	"net/url"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/stint-limiter/stint"
)

// LimitsOf returns the limits on a subject, as counted in windows of a kind, and their path in the
// configuration. There are none if the subject is not one of Envoy's, if its name is a hash, if its
// descriptor no longer has a limit, or if the limit came from requests only.
func (c *Config) LimitsOf(subject string, w Window) (rule string, limits []stint.Limit) {
	name, descriptor, ok := readSubject(subject)
	if !ok || c == nil {
		return "", nil
	}
	d := c.domains[name]
	if d == nil {
		return "", nil
	}
	var scratch []byte
	found, counted := d.match(descriptor, nil, &scratch)
	if found == nil || found.unlimited || finishSubject(counted) != subject {
		return "", nil
	}
	return found.key, found.limits[w]
}

// readSubject returns the domain and the descriptor that a counter's subject was made from.
func readSubject(subject string) (domain string, d *commonv3.RateLimitDescriptor, ok bool) {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	if !ok {
		return "", nil, false
	}
	domain, rest, ok = strings.Cut(rest, ":")
	if !ok {
		return "", nil, false
	}
	d = &commonv3.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(rest, ",") {
		key, value, found := strings.Cut(entry, "=")
		key, errKey := url.PathUnescape(key)
		value, errValue := url.PathUnescape(value)
		if !found || errKey != nil || errValue != nil {
			return "", nil, false
		}
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	domain, err := url.PathUnescape(domain)
	return domain, d, err == nil
}
