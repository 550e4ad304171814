package accesslog

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
)

// Mapping locates the parts of a record in lines of JSON. The zero value maps nothing.
type Mapping struct{ paths []partPath }

// partPath is the path of keys to a part of a record. If a part has several paths, they are tried
// in order.
type partPath struct {
	part string // an element of parts, or "header" or "claim"
	name string // name of the header or claim
	keys []string
}

const (
	partHeader = "header"
	partClaim  = "claim"

	partInput     = "input_tokens"
	partOutput    = "output_tokens"
	partCached    = "cached_tokens"
	partMaxOutput = "max_output"
	partModel     = "model"
)

// parts lists all parts except header:NAME and claim:NAME, which have names.
var parts = []string{"time", "client", "user", "method", "host", "path", "request", "status", "bytes", "headers",
	partInput, partOutput, partCached, partMaxOutput, partModel}

// ParseMapping reads a mapping such as
//
//	time=ts,client=request.remote_ip,header:X-Api-Key=request.headers.X-Api-Key,claim:plan=plan
//
// It is a list of parts, each with the path of keys that leads to it. Dots separate the keys of
// nested objects; a backslash before a dot makes it part of a key. The parts are time, client,
// user, method, host, path (with or without a query), request (a whole request line, if there is no
// path), status, bytes, headers (an object with all headers), header:NAME (a single header) and
// claim:NAME (a single claim). For requests to language models, there are also input_tokens,
// output_tokens, cached_tokens, max_output (the maximum number of output tokens that the request
// sets) and model. If a part is mapped several times, the first path with a value is used. If the
// value of a part is an array, its first element is used. All mistakes are reported together.
func ParseMapping(text string) (Mapping, error) {
	var m Mapping
	var errs []error
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		p, err := parsePath(item)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if i := slices.IndexFunc(m.paths, p.contradicts); i >= 0 {
			shared := p.keys[:min(len(p.keys), len(m.paths[i].keys))]
			errs = append(errs, fmt.Errorf("%q: %q cannot be a value and an object at once",
				item, strings.Join(shared, ".")))
			continue
		}
		m.paths = append(m.paths, p)
	}
	if len(errs) > 0 {
		return Mapping{}, fmt.Errorf("accesslog: mapping: %w", errors.Join(errs...))
	}
	return m, nil
}

func parsePath(item string) (partPath, error) {
	part, path, ok := strings.Cut(item, "=")
	if !ok {
		return partPath{}, fmt.Errorf(
			`%q: want PART=KEY, such as "time=ts" or "header:X-Api-Key=request.headers.X-Api-Key"`, item)
	}
	part, path = strings.TrimSpace(part), strings.TrimSpace(path)
	p := partPath{part: part}
	if kind, name, named := strings.Cut(part, ":"); named {
		p.part, p.name = kind, name
	}
	switch {
	case p.part == partHeader && syntax.IsToken(p.name):
		p.name = textproto.CanonicalMIMEHeaderKey(p.name)
	case p.part == partHeader:
		return partPath{}, fmt.Errorf(`%q: invalid header name %q; want one as in "header:X-Api-Key"`, item, p.name)
	case p.part == partClaim && p.name == "":
		return partPath{}, fmt.Errorf(`%q: no claim name; want one as in "claim:plan"`, item)
	case p.part != partClaim && (p.name != "" || !slices.Contains(parts, p.part)):
		return partPath{}, fmt.Errorf("%q: unknown part %q%s; want %s, header:NAME or claim:NAME",
			item, part, messages.Hint(part, parts), strings.Join(parts, ", "))
	}
	p.keys = splitKeys(path)
	for _, key := range p.keys {
		if key == "" || strings.ContainsAny(key, "\"'`\\") {
			return partPath{}, fmt.Errorf("%q: invalid key %q; "+
				"want letters, digits and punctuation without quotes, commas and backslashes", item, key)
		}
	}
	return p, nil
}

// splitKeys splits a path at dots that have no backslash before them.
func splitKeys(path string) []string {
	const dot = "\x00"
	keys := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i := range keys {
		keys[i] = strings.ReplaceAll(keys[i], dot, ".")
	}
	return keys
}

// contradicts reports whether one of the paths is a proper prefix of the other. Such paths cannot
// be used together, because one expects a value where the other expects an object.
func (p partPath) contradicts(q partPath) bool {
	shared := min(len(p.keys), len(q.keys))
	return len(p.keys) != len(q.keys) && slices.Equal(p.keys[:shared], q.keys[:shared])
}

// over returns the paths of the mapping, followed by those paths of a format that the mapping does
// not replace.
func (m Mapping) over(format []partPath) []partPath {
	all := slices.Clone(m.paths)
	for _, p := range format {
		replaced := slices.ContainsFunc(m.paths, func(q partPath) bool {
			return p.part == q.part && p.name == q.name || p.contradicts(q)
		})
		if !replaced {
			all = append(all, p)
		}
	}
	return all
}

// jsonMappings locates the parts of a record in each JSON format.
var jsonMappings = map[string]string{
	// client_ip is the address of the client behind the proxies that Caddy trusts.
	"caddy": `time=ts, client=request.client_ip, client=request.remote_ip, user=user_id,
		method=request.method, host=request.host, path=request.uri, status=status, bytes=size,
		headers=request.headers`,
	// Istio writes keys with underscores, and Envoy Gateway writes keys with dashes.
	"envoy": `time=start_time, client=downstream_remote_address, method=method, host=authority,
		host=:authority, path=path, path=x-envoy-origin-path, status=response_code, bytes=bytes_sent,
		header:User-Agent=user_agent, header:User-Agent=user-agent,
		header:X-Forwarded-For=x_forwarded_for, header:X-Forwarded-For=x-forwarded-for,
		header:X-Request-Id=request_id, header:X-Request-Id=x-request-id`,
	"traefik": `time=StartUTC, time=StartLocal, time=time, client=ClientHost, client=ClientAddr, user=ClientUsername,
		method=RequestMethod, host=RequestHost, host=RequestAddr, path=RequestPath, status=DownstreamStatus,
		bytes=DownstreamContentSize, header:Referer=request_Referer, header:User-Agent=request_User-Agent,
		header:X-Forwarded-For=request_X-Forwarded-For, header:X-Request-Id=request_X-Request-Id`,
	// These keys are common names for nginx variables, and names that libraries use.
	"json": `time=time, time=timestamp, time=@timestamp, time=ts, time=time_iso8601, time=time_local,
		time=msec, client=client_ip, client=remote_addr, client=remote_ip, client=client, client=ip,
		user=user, user=remote_user, method=method, method=request_method, method=http_method,
		host=host, host=http_host, host=server_name, path=path, path=uri, path=request_uri, path=url,
		request=request, status=status, status=status_code, bytes=bytes, bytes=body_bytes_sent,
		bytes=bytes_sent, bytes=size, header:Referer=referer, header:Referer=http_referer,
		header:User-Agent=user_agent, header:User-Agent=http_user_agent,
		header:X-Forwarded-For=x_forwarded_for, header:X-Forwarded-For=http_x_forwarded_for,
		input_tokens=input_tokens, input_tokens=prompt_tokens, input_tokens=usage.prompt_tokens,
		input_tokens=usage.input_tokens, input_tokens=gen_ai\.usage\.input_tokens,
		output_tokens=output_tokens, output_tokens=completion_tokens, output_tokens=usage.completion_tokens,
		output_tokens=usage.output_tokens, output_tokens=gen_ai\.usage\.output_tokens,
		cached_tokens=cached_tokens, cached_tokens=usage.prompt_tokens_details.cached_tokens,
		cached_tokens=usage.input_tokens_details.cached_tokens, model=model, model=gen_ai\.request\.model`,
}
