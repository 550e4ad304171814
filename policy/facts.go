package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
)

// facts is a request while it is being judged: what follows from its attributes, found out when
// first needed.
type facts struct {
	in       *Input
	resolver *clientip.Resolver
	asserted map[string]string // claims to the headers that assert them
	before   string            // a subject whose text serves again if it is the same

	reading           // the one that is looked at
	first   reading   // what net/http makes of the request
	others  []reading // what others may; nil for most requests

	client    netip.Addr
	hasClient bool
}

// reading is what an application may make of a request.
type reading struct {
	path, method string
	folded       bool // letters are the same in upper and in lower case
	last         bool // of a field or cookie that is there several times, the last one counts, and not the first
}

// overrides are the fields that name the method that some applications go by.
var overrides = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// read finds the readings of a request by the rules of a set, and looks at the first.
func (f *facts) read(in *Input, s *Set) {
	f.in, f.resolver, f.asserted = in, s.resolver, s.asserted
	f.first = reading{path: in.Path, method: strings.ToUpper(in.Method)}
	plain := in.RawPath == "" && isPlain(in.Path)
	if !plain {
		var paths []string
		f.first.path, paths = readPath(in.Path, in.RawPath)
		for _, p := range paths {
			f.others = append(f.others, reading{path: p, method: f.first.method})
		}
	}
	if !plain || s.upper {
		for i := range f.count() {
			if r := f.at(i); s.folds(r.path) {
				f.others = append(f.others, reading{path: r.path, method: r.method, folded: true})
			}
		}
	}
	for _, method := range f.otherMethods(s.methods) {
		for i := range f.count() {
			if r := f.at(i); r.method == f.first.method {
				f.others = append(f.others, reading{path: r.path, method: method, folded: r.folded})
			}
		}
	}
	if slices.ContainsFunc(s.chosen, func(id *identity) bool { return id.repeated(f) }) {
		for i := range f.count() {
			r := f.at(i)
			r.last = true
			f.others = append(f.others, r)
		}
	}
	f.reading = f.first
}

func (f *facts) count() int { return 1 + len(f.others) }

// look makes a reading the one that is looked at. Most requests have no other than the first.
func (f *facts) look(i int) {
	if len(f.others) > 0 {
		f.reading = f.at(i)
	}
}

func (f *facts) at(i int) reading {
	if i == 0 {
		return f.first
	}
	return f.others[i-1]
}

// otherMethods returns those of the known methods that a request names in a field of its header.
// Some servers join the lines of a field with commas.
func (f *facts) otherMethods(known []string) (methods []string) {
	if len(known) == 0 {
		return nil
	}
	for _, name := range overrides {
		for _, value := range f.lines(name) {
			for word := range strings.SplitSeq(value, ",") {
				word = strings.TrimSpace(word)
				i := slices.IndexFunc(known, func(method string) bool { return strings.EqualFold(method, word) })
				if i >= 0 && known[i] != f.first.method && !slices.Contains(methods, known[i]) {
					methods = append(methods, known[i])
				}
			}
		}
	}
	return methods
}

func (f *facts) clientAddr() netip.Addr {
	if !f.hasClient {
		f.client, f.hasClient = f.resolver.Client(f.in.Peer, f.fields()), true
	}
	return f.client
}

// fields returns the request's header, never nil.
func (f *facts) fields() clientip.Header {
	if f.in.Header == nil {
		return noHeader{}
	}
	return f.in.Header
}

type noHeader struct{}

func (noHeader) Values(string) []string { return nil }

// lines returns the values of a header field, by its canonical name. Most headers are an
// http.Header, which would make sure that it is.
func (f *facts) lines(name string) []string {
	if h, ok := f.in.Header.(http.Header); ok {
		return h[name]
	}
	return f.fields().Values(name)
}

// header returns the first value of a header field that is not empty, or the last, or "".
func (f *facts) header(name string) (found string) {
	for _, value := range f.lines(name) {
		if value == "" {
			continue
		}
		if found = value; !f.last {
			break
		}
	}
	return found
}

// claim returns what the application says of the caller, else what a trusted proxy does, else "".
func (f *facts) claim(name string) string {
	if f.in.Claims != nil {
		if v := f.in.Claims.Claim(name); v != "" {
			return v
		}
	}
	if header, ok := f.asserted[name]; ok && f.resolver.Trusts(f.in.Peer) {
		// Of several lines one may be the client's own, which the proxy let through.
		if values := f.lines(header); len(values) == 1 {
			return values[0]
		}
	}
	return ""
}
