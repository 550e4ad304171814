package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/pathpattern"
)

// facts holds the request that is being decided, and facts that are derived from its attributes.
type facts struct {
	in       *Input
	resolver *clientip.Resolver
	asserted map[string]string // maps claims to the headers that assert them
	before   string            // an earlier subject; [identity.find] reuses it for an equal one

	reading           // the current reading
	first   reading   // the request as net/http reads it
	others  []reading // other readings that the set distinguishes; nil for most requests
	tooMany bool      // whether some readings, methods or cookies are left out because there are too many
	known   []known   // subjects by identity index; nil if there is only one reading
	cookies []values  // values of the set's cookies; nil if there are none

	client    netip.Addr
	hasClient bool
	odd       oddClaim // a claim whose value is not a valid maximum; zero if there is none
}

// known caches the subject of an identity. Index 0 is for readings in which the first value of a
// repeated header field or cookie counts, and index 1 for readings in which the last value counts.
type known struct {
	subject [2]string
	found   [2]bool
}

// values holds the first and the last non-empty value of a cookie, and whether there is more than
// one.
type values struct {
	first, last string
	several     bool
}

// read finds those readings of a request that the rules of a set distinguish. It makes the first
// one current.
func (f *facts) read(in *Input, s *Set) {
	f.in, f.resolver, f.asserted = in, s.resolver, s.asserted
	f.first = reading{path: in.Path, method: strings.ToUpper(in.Method)}
	plain, dot := isPlain(in.Path)
	if plain = plain && in.RawPath == ""; !plain {
		f.first.path = pathpattern.Clean(in.Path)
	}
	if !plain || s.upper || dot > 0 && s.endingMatters(in.Path, in.Path[:dot], (*pathpattern.Pattern).Fits) {
		f.readPaths(s)
	}
	for _, method := range f.otherMethods(s.methods) {
		for i := range f.count() {
			if r := f.at(i); r.method == f.first.method {
				r.method = method
				f.add(r)
			}
		}
	}
	f.readCookies(s.cookies)
	if slices.ContainsFunc(s.chosen, func(id *identity) bool { return id.repeated(f) }) {
		for i := range f.count() {
			r := f.at(i)
			r.last = true
			f.add(r)
		}
	}
	if len(f.others) > 0 {
		f.known = make([]known, s.identities)
	}
	f.reading = f.first
}

// maxCookies is the maximum number of cookies in a request. Browsers keep at most a few hundred per
// site.
const maxCookies = 3000

// readCookies finds the cookies with the given names. A request with more than maxCookies cookies
// is denied, because its caller cannot be determined. The net/http server has the same maximum.
func (f *facts) readCookies(names []string) {
	if len(names) == 0 {
		return
	}
	parts := 0
	for _, line := range f.lines("Cookie") {
		for part := range strings.SplitSeq(line, ";") {
			if parts++; parts > maxCookies {
				f.tooMany = true
				return
			}
			name, value, _ := strings.Cut(part, "=")
			i := slices.Index(names, strings.TrimSpace(name))
			if i < 0 {
				continue
			}
			if f.cookies == nil {
				f.cookies = make([]values, len(names))
			}
			if v, value := &f.cookies[i], plainCookie(value); v.last == "" {
				v.first, v.last = value, value
			} else if value != "" {
				v.last, v.several = value, true
			}
		}
	}
}

// cookie returns the value of cookie i of the set, or "". If the cookie is repeated, cookie returns
// the first or the last non-empty value, depending on the reading, because handlers differ in which
// one they use.
func (f *facts) cookie(i int) string {
	switch {
	case f.cookies == nil:
		return ""
	case f.last:
		return f.cookies[i].last
	}
	return f.cookies[i].first
}

func (f *facts) clientAddr() netip.Addr {
	if !f.hasClient {
		f.client, f.hasClient = f.resolver.Client(f.in.Peer, f.fields()), true
	}
	return f.client
}

// fields returns the request's header. If the request has none, the result is empty, but not nil.
func (f *facts) fields() clientip.Header {
	if f.in.Header == nil {
		return http.Header{}
	}
	return f.in.Header
}

// lines returns the values of a header field. The name must be canonical. lines reads an
// http.Header, the usual type, without its Values method, which would canonicalize the name again.
func (f *facts) lines(name string) []string {
	if h, ok := f.in.Header.(http.Header); ok {
		return h[name]
	}
	return f.fields().Values(name)
}

// header returns a non-empty value of a header field: the first or the last one, depending on the
// reading. It returns "" if there is none.
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

// claim returns the value of a claim, which comes from the application or else from a trusted
// proxy. It returns "" if neither has passed the claim.
func (f *facts) claim(name string) string {
	if f.in.Claims != nil {
		if v := f.in.Claims.Claim(name); v != "" {
			return v
		}
	}
	if header, ok := f.asserted[name]; ok && f.resolver.Trusts(f.in.Peer) {
		// If there are several lines, one may come from the client, so none of them counts.
		if values := f.lines(header); len(values) == 1 {
			return values[0]
		}
	}
	return ""
}
