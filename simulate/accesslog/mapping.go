package accesslog

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"unicode"

	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/words"
)

// Mapping says where in lines of JSON the parts of a record are. The zero mapping says nothing.
type Mapping struct{ places []place }

// place is where one part of a record may be. Several places of one part are tried in turn.
type place struct {
	part string // one of parts(), "header" or "claim"
	name string // of the header or claim
	keys []string
}

const (
	partHeader = "header"
	partClaim  = "claim"
)

// parts are those that are mapped without a name of their own.
func parts() []string {
	return []string{"time", "client", "user", "method", "host", "path", "request", "status", "bytes", "headers"}
}

// ParseMapping reads a mapping such as
//
//	time=ts,client=request.remote_ip,header:X-Api-Key=request.headers.X-Api-Key,claim:plan=plan
//
// that is: parts and the keys that lead to them, of objects within objects divided by dots; a dot that belongs to a
// key has a backslash before it. The parts are time, client, user, method, host, path (with or without a query),
// request (a whole request line, for want of method and path), status, bytes, headers (an object with all of
// them), and header:NAME and claim:NAME for single ones. A part may be mapped several times: the first place that
// has something counts. Of an array, the first element does. All mistakes are reported together.
func ParseMapping(text string) (Mapping, error) {
	var m Mapping
	var errs []error
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		p, err := parsePlace(item)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if i := slices.IndexFunc(m.places, p.contradicts); i >= 0 {
			errs = append(errs, fmt.Errorf("%q: %q cannot be a value and hold others at once", item, strings.Join(shorter(p.keys, m.places[i].keys), ".")))
			continue
		}
		m.places = append(m.places, p)
	}
	if len(errs) > 0 {
		return Mapping{}, fmt.Errorf("accesslog: mapping: %w", errors.Join(errs...))
	}
	return m, nil
}

func parsePlace(item string) (place, error) {
	part, path, ok := strings.Cut(item, "=")
	if !ok {
		return place{}, fmt.Errorf(`%q: want PART=KEY, such as "time=ts" or "header:X-Api-Key=request.headers.X-Api-Key"`, item)
	}
	part, path = strings.TrimSpace(part), strings.TrimSpace(path)
	p := place{part: part}
	if kind, name, named := strings.Cut(part, ":"); named {
		p.part, p.name = kind, name
	}
	switch {
	case p.part == partHeader && words.IsToken(p.name):
		p.name = textproto.CanonicalMIMEHeaderKey(p.name)
	case p.part == partHeader:
		return place{}, fmt.Errorf(`%q: %q cannot name a header; want one as in "header:X-Api-Key"`, item, p.name)
	case p.part == partClaim && p.name == "":
		return place{}, fmt.Errorf(`%q: a claim has a name; want one as in "claim:plan"`, item)
	case p.part != partClaim && (p.name != "" || !slices.Contains(parts(), p.part)):
		return place{}, fmt.Errorf("%q: there is no part %q%s; want %s, header:NAME or claim:NAME",
			item, part, nearest.Hint(part, parts()), strings.Join(parts(), ", "))
	}
	p.keys = splitKeys(path)
	for _, key := range p.keys {
		if !isKey(key) {
			return place{}, fmt.Errorf("%q: %q cannot be a key; want letters, digits and punctuation without quotes, commas and backslashes", item, key)
		}
	}
	return p, nil
}

// splitKeys divides at dots that have no backslash before them.
func splitKeys(path string) []string {
	const dot = "\x00"
	keys := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i := range keys {
		keys[i] = strings.ReplaceAll(keys[i], dot, ".")
	}
	return keys
}

// isKey reports whether package encoding/json takes a key from a tag.
func isKey(key string) bool {
	for _, c := range key {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return key != ""
}

// contradicts reports whether one place is within the other.
func (p place) contradicts(q place) bool {
	least := min(len(p.keys), len(q.keys))
	return len(p.keys) != len(q.keys) && slices.Equal(p.keys[:least], q.keys[:least])
}

// over returns the places of the mapping, and those others that it leaves as they are.
func (m Mapping) over(others []place) []place {
	all := slices.Clone(m.places)
	for _, p := range others {
		replaced := slices.ContainsFunc(m.places, func(q place) bool {
			return p.part == q.part && p.name == q.name || p.contradicts(q)
		})
		if !replaced {
			all = append(all, p)
		}
	}
	return all
}

func shorter(a, b []string) []string {
	if len(a) < len(b) {
		return a
	}
	return b
}

// at returns the places of a part, each given by its keys.
func at(part, name string, paths ...string) []place {
	list := make([]place, 0, len(paths))
	for _, path := range paths {
		list = append(list, place{part, name, splitKeys(path)})
	}
	return list
}

// caddyPlaces are those of Caddy's access log. The client is the one that Caddy found behind the proxies it trusts.
func caddyPlaces() []place {
	return slices.Concat(
		at("time", "", "ts"),
		at("client", "", "request.client_ip", "request.remote_ip"),
		at("user", "", "user_id"),
		at("method", "", "request.method"),
		at("host", "", "request.host"),
		at("path", "", "request.uri"),
		at("status", "", "status"),
		at("bytes", "", "size"),
		at("headers", "", "request.headers"),
	)
}

// envoyPlaces are those of the default logs of Istio and Envoy Gateway, which differ in their dashes.
func envoyPlaces() []place {
	return slices.Concat(
		at("time", "", "start_time"),
		at("client", "", "downstream_remote_address"),
		at("method", "", "method"),
		at("host", "", "authority", ":authority"),
		at("path", "", "path", "x-envoy-origin-path"),
		at("status", "", "response_code"),
		at("bytes", "", "bytes_sent"),
		at(partHeader, "User-Agent", "user_agent", "user-agent"),
		at(partHeader, "X-Forwarded-For", "x_forwarded_for", "x-forwarded-for"),
		at(partHeader, "X-Request-Id", "request_id", "x-request-id"),
	)
}

// usualPlaces are names that people give to nginx's variables, and that libraries choose.
func usualPlaces() []place {
	return slices.Concat(
		at("time", "", "time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec"),
		at("client", "", "client_ip", "remote_addr", "remote_ip", "client", "ip"),
		at("user", "", "user", "remote_user"),
		at("method", "", "method", "request_method", "http_method"),
		at("host", "", "host", "http_host", "server_name"),
		at("path", "", "path", "uri", "request_uri", "url"),
		at("request", "", "request"),
		at("status", "", "status", "status_code"),
		at("bytes", "", "bytes", "body_bytes_sent", "bytes_sent", "size"),
		at(partHeader, "Referer", "referer", "http_referer"),
		at(partHeader, "User-Agent", "user_agent", "http_user_agent"),
		at(partHeader, "X-Forwarded-For", "x_forwarded_for", "http_x_forwarded_for"),
	)
}
