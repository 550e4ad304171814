package policy

import (
	"net/netip"

	"github.com/stint-limiter/stint/internal/clientip"
)

// facts is a request while it is being judged: what follows from its attributes, found out when first needed.
type facts struct {
	in       *Input
	resolver *clientip.Resolver
	asserted map[string]string // claims to the headers that assert them
	path     string            // the reading that is looked at
	readings [4]string         // of the path; see read
	count    int
	last     string // a subject whose text serves again if it is the same

	client    netip.Addr
	hasClient bool
}

func (f *facts) clientAddr() netip.Addr {
	if !f.hasClient {
		f.client, f.hasClient = f.resolver.Client(f.in.Peer, f.fields()), true
	}
	return f.client
}

// fields returns the request's header, never nil.
func (f *facts) fields() Header {
	if f.in.Header == nil {
		return noHeader{}
	}
	return f.in.Header
}

type noHeader struct{}

func (noHeader) Values(string) []string { return nil }

// header returns the first value of a header field, or "".
func (f *facts) header(name string) string {
	if f.in.Header == nil {
		return ""
	}
	if values := f.in.Header.Values(name); len(values) > 0 {
		return values[0]
	}
	return ""
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
		if values := f.fields().Values(header); len(values) == 1 {
			return values[0]
		}
	}
	return ""
}
