package httplimit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/syntax"
)

// KeyFunc returns the key of a request: requests with equal keys are counted together. By
// convention a key is "type:identifier". A key must not begin with a zero byte.
//
// The empty key means that the request has no key. Such a request is not counted: [By] rejects it
// with [ErrNoKey], because otherwise all clients that omit a header would share one count.
// [FirstOf] can give such requests another key.
//
// Make keys from verified data, or at least from data that is hard to make up: a client that can
// choose its key gets as many counts as it likes.
type KeyFunc func(*http.Request) string

// ErrNoKey is the error for a request without a key. It is passed to the function of [WithError].
var ErrNoKey = middleware.ErrNoKey

// ClientIP distinguishes clients by their address: all of an IPv4 address, the first 64 bits of an
// IPv6 address, or the IPv4 address embedded in a NAT64, 6to4 or Teredo address. It uses only the
// part of X-Forwarded-For that trusted proxies wrote. The proxies are given as addresses, networks,
// and the words "loopback", "private" and "unix". Without trusted proxies, the client is the peer,
// regardless of the header. A request from a peer without an address, as on a Unix socket, has no
// key unless "unix" is trusted and the peer names the client in that header.
//
// ClientIP panics if an entry is invalid. [NewClientIP] returns an error instead.
func ClientIP(trusted ...string) KeyFunc {
	key, err := NewClientIP(trusted...)
	middleware.Must("httplimit: ClientIP", err)
	return key
}

// NewClientIP is like [ClientIP] for proxies that come from a configuration: it returns all invalid
// entries in one [*stint.InvalidError] instead of panicking.
func NewClientIP(trusted ...string) (KeyFunc, error) {
	key, err := clientip.Key(trusted)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) string { return key(clientip.PeerOf(r), r.Header) }, nil
}

// Header distinguishes clients by a request header, such as an API key. The key contains a hash of
// the header's value, which may be a secret. A request without the header has no key. Header panics
// if name cannot be the name of a header.
//
// Clients can send any header. Use Header only if a proxy or earlier middleware has verified it, or
// together with a limit by [ClientIP].
func Header(name string) KeyFunc {
	if !syntax.IsToken(name) {
		panic(fmt.Sprintf("httplimit: Header: %q is not the name of a header; want one such as X-API-Key", name))
	}
	canonical := http.CanonicalHeaderKey(name)
	kind := strings.ToLower(name) + ":"
	return func(r *http.Request) string {
		values := r.Header[canonical]
		if len(values) == 0 || values[0] == "" {
			return ""
		}
		return kind + hashed(values[0])
	}
}

// hashed returns a hash of a value that may be a secret, for use in a key.
func hashed(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// FirstOf returns a KeyFunc that returns the first key that a request has:
//
//	FirstOf(Header("X-API-Key"), ClientIP())
//
// FirstOf panics if there are no keys or one of them is nil.
func FirstOf(keys ...KeyFunc) KeyFunc {
	if len(keys) == 0 {
		panic("httplimit: FirstOf: there are no keys; want at least one, such as ClientIP()")
	}
	if i := slices.IndexFunc(keys, func(k KeyFunc) bool { return k == nil }); i >= 0 {
		panic(fmt.Sprintf("httplimit: FirstOf: key %d is nil; want one such as ClientIP()", i+1))
	}
	return func(r *http.Request) string {
		for _, key := range keys {
			if k := key(r); k != "" {
				return k
			}
		}
		return ""
	}
}

// Everyone returns a KeyFunc that gives all requests the same key, so that they share one count. A
// limit on everyone protects the server behind the handler, but is not fair to clients: one client
// can use up the limit. The key is never banned.
func Everyone() KeyFunc {
	return func(*http.Request) string { return everyone }
}

// everyone is the key of [Everyone] in this process. It is secret, because a caller that could
// choose it as its own key could not be banned.
var everyone = middleware.Everyone + rand.Text()
