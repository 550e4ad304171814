package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/whatwg"
)

// arrival is a request as it reached an application.
type arrival struct {
	raw            string // byte for byte
	method, target string
	header         map[string][]string // names in lower case, with dashes for underscores as WSGI and PHP have them
	body           string
}

// readArrival reads a request, and is as lenient as any server.
func readArrival(r *bufio.Reader) (*arrival, error) {
	line := ""
	for strings.TrimRight(line, "\r\n") == "" {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " ")
	in := &arrival{header: map[string][]string{}}
	if end := strings.IndexAny(line, " \t"); end >= 0 {
		in.method, in.target = line[:end], line[end+1:]
	}
	for _, version := range []string{" HTTP/", " http/", "\tHTTP/"} {
		if at := strings.LastIndex(in.target, version); at >= 0 {
			in.target = in.target[:at]
		}
	}
	last := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if values := in.header[last]; last != "" && strings.IndexByte(" \t", line[0]) >= 0 { // folded
			values[len(values)-1] = strings.TrimSpace(values[len(values)-1] + " " + strings.TrimSpace(line))
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		last = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
		in.header[last] = append(in.header[last], strings.TrimSpace(value))
	}
	body, err := in.readBody(r)
	in.body = string(body)
	return in, err
}

func (in *arrival) readBody(r *bufio.Reader) ([]byte, error) {
	if len(in.header["transfer-encoding"]) > 0 {
		var all []byte
		for {
			line, err := textproto.NewReader(r).ReadLine()
			if err != nil {
				return nil, err
			}
			text, _, _ := strings.Cut(line, ";")
			size, err := strconv.ParseUint(strings.TrimSpace(text), 16, 16)
			if err != nil {
				return nil, err
			}
			part := make([]byte, size+2)
			if _, err := io.ReadFull(r, part); err != nil || size == 0 {
				return all, err
			}
			all = append(all, part[:size]...)
		}
	}
	if values := in.header["content-length"]; len(values) > 0 {
		size, err := strconv.ParseUint(values[0], 10, 16)
		if err != nil {
			return nil, err
		}
		body := make([]byte, size)
		_, err = io.ReadFull(r, body)
		return body, err
	}
	return nil, nil
}

// resource is what a handler is for. In a table an empty method or host is any.
type resource struct{ method, host, path string }

// covers reports whether a handler for r is run for what was asked. Express does not look at the
// case of paths.
func (r resource) covers(asked resource) bool {
	return (r.method == "" || r.method == asked.method) && (r.host == "" || r.host == asked.host) &&
		(r.path == "" || strings.EqualFold(r.path, asked.path))
}

// runs returns how an application reads a request that runs the handler for a resource, or "" if
// none does.
func (in *arrival) runs(handler resource) string {
	for _, host := range in.hosts() {
		for _, method := range in.methods() {
			for _, r := range in.paths() {
				if handler.covers(resource{method, host, r.path}) {
					return fmt.Sprintf("%s %s by %s", method, host+r.path, r.by)
				}
			}
		}
	}
	return ""
}

// methods are those that frameworks take a request to have: in upper case, as Flask does it, and
// those that fields say it has.
func (in *arrival) methods() []string {
	list := []string{strings.ToUpper(in.method)}
	for _, field := range []string{"x-http-method-override", "x-http-method", "x-method-override"} {
		for _, value := range in.header[field] {
			method, _, _ := strings.Cut(value, ",") // as Express does
			list = append(list, strings.ToUpper(strings.TrimSpace(method)))
		}
	}
	return list
}

// hosts are those that virtual hosts are chosen by.
func (in *arrival) hosts() []string {
	var list []string
	for _, host := range in.hostFields() {
		for _, host := range strings.Split(host, ",") { // behind a proxy that is trusted
			host = host[strings.LastIndexByte(host, '@')+1:]
			host, _, _ = strings.Cut(host, ":")
			list = append(list, strings.TrimRight(strings.ToLower(strings.TrimSpace(host)), "."))
		}
	}
	return append(list, "")
}

// hostFields are the hosts of a request as it has them.
func (in *arrival) hostFields() []string {
	list := slices.Concat(in.header["host"], in.header["x-forwarded-host"])
	if authority, _, ok := cutOrigin(in.target); ok {
		list = append(list, authority)
	}
	return list
}

// reading is a path that some application routes a request by, and what it does to find it.
type reading struct{ path, by string }

// paths are the readings of a request's target, and of those that frameworks for IIS take for it.
func (in *arrival) paths() []reading {
	var list []reading
	seen := map[string]bool{}
	add := func(p, by string) {
		if p = "/" + strings.Trim(p, "/"); !seen[p] {
			seen[p] = true
			list = append(list, reading{p, by})
		}
	}
	for _, target := range slices.Concat([]string{in.target}, in.header["x-original-url"], in.header["x-rewrite-url"]) {
		for _, r := range parsed(target, in.hostFields()) {
			for _, r := range []reading{r, {withoutParameters(r.path), r.by + ", without parameters"}} {
				add(r.path, r.by)
				add(path.Clean("/"+r.path), r.by+", cleaned")
				if plain, err := url.PathUnescape(r.path); err == nil {
					add(plain, r.by+", decoded")
					add(path.Clean("/"+plain), r.by+", decoded, cleaned")
					add(path.Clean("/"+strings.ReplaceAll(plain, `\`, "/")),
						r.by+", decoded, backslashes as slashes, cleaned")
					add(path.Clean("/"+withoutParameters(plain)), r.by+", decoded, without parameters, cleaned")
					add(path.Clean("/"+cutAny(plain, "#")), r.by+", decoded, cut at #, cleaned")
					add(path.Clean("/"+cutAny(plain, "\x00")), r.by+", decoded, cut at NUL, cleaned")
					if p, ok := whatwg.Pathname(plain); ok {
						add(p, r.by+", decoded, new URL")
					}
				}
				add(path.Clean("/"+wholly(r.path)), r.by+", wholly decoded, cleaned") // Astro
			}
		}
	}
	for _, r := range list {
		add(strings.TrimSpace(r.path), r.by+", trimmed")
	}
	for _, r := range list {
		if _, info, ok := strings.Cut(r.path, ".php/"); ok {
			add(info, r.by+", behind the front controller") // PHP
		}
	}
	for _, r := range list {
		if dir, name := path.Split(r.path); strings.LastIndexByte(name, '.') > 0 {
			add(dir+name[:strings.LastIndexByte(name, '.')], r.by+", without format") // Rails
		}
	}
	return list
}

// wholly decodes a path until nothing changes.
func wholly(p string) string {
	for {
		plain, err := url.PathUnescape(p)
		if err != nil || plain == p {
			return p
		}
		p = plain
	}
}

// parsed returns what parsers make of a target, before anything is decoded.
func parsed(target string, hosts []string) []reading {
	targets := []string{target}
	if _, origin, ok := cutOrigin(target); ok {
		targets = append(targets, origin) // what proxies make of it
	}
	var list []reading
	for _, t := range targets {
		if p, ok := whatwg.Pathname(t); ok {
			list = append(list, reading{p, "new URL"}) // Node, Deno, Bun
		}
		for _, host := range hosts {
			if p, ok := whatwg.Pathname("http://" + host + t); ok {
				list = append(list, reading{p, "new URL of host and target"})
			}
		}
		query, _, _ := strings.Cut(t, "?")
		fragment := cutAny(t, "?#")
		list = append(list,
			reading{query, "cutting at ?"},                               // PHP, Rack
			reading{fragment, "cutting at ? and #"},                      // nginx, Symfony
			reading{strings.ReplaceAll(fragment, `\`, "/"), "url.parse"}, // Express
			reading{urlsplit(t), "urlsplit"},                             // Python; parse_url of PHP is much like it
		)
		if u, err := url.ParseRequestURI(t); err == nil {
			list = append(list, reading{u.EscapedPath(), "net/url"})
		}
	}
	return list
}

// cutOrigin divides a target in absolute form before its path.
func cutOrigin(target string) (authority, origin string, ok bool) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || strings.ContainsAny(scheme, "/?#") {
		return "", "", false
	}
	authority = cutAny(rest, "/?#")
	return authority, "/" + strings.TrimPrefix(rest[len(authority):], "/"), true
}

func cutAny(text, chars string) string {
	if at := strings.IndexAny(text, chars); at >= 0 {
		return text[:at]
	}
	return text
}

// urlsplit returns the path that Python's function of this name finds.
func urlsplit(target string) string {
	target = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(
		strings.TrimLeftFunc(target, func(c rune) bool { return c <= ' ' }))
	if rest, ok := strings.CutPrefix(target, "//"); ok {
		target = rest[len(cutAny(rest, "/?#")):]
	}
	return cutAny(target, "?#")
}

// withoutParameters returns a path without what follows a semicolon in each segment, as servlets
// read it.
func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
