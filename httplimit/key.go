package httplimit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/bykey"
	"github.com/stint-limiter/stint/internal/clientip"
)

// KeyFunc says whose request it is: requests with equal keys are counted together. By convention a
// key is "type:identifier". One that begins with a zero byte is a mistake.
//
// The empty key means that the request does not say. It is never counted: [By] treats it as
// [ErrNoKey], because otherwise all those who leave out a header would share one bucket. See
// [FirstOf] for what to do about them.
//
// Whatever a key is made of should be verified, or at least be hard to make up: who can choose the
// key has as many buckets as they like.
type KeyFunc func(*http.Request) string

// ErrNoKey is what the handler of [WithError] is given for a request that has no key.
var ErrNoKey = errors.New("httplimit: the request has no key to count it by; give FirstOf a key that every request has")

// ClientIP tells clients apart by their address: all of an IPv4 address, the first 64 bits of an
// IPv6 address, and the IPv4 address that an IPv6 address of NAT64, 6to4 or Teredo carries. It
// takes X-Forwarded-For into account only as far as it was written by trusted proxies: addresses,
// networks, and the words "loopback", "private" and "unix". Without any the client is the peer,
// whatever the header says. A peer without an address that names no client has no key.
//
// ClientIP panics if an entry is none of these. [NewClientIP] returns an error instead.
func ClientIP(trusted ...string) KeyFunc {
	key, err := NewClientIP(trusted...)
	if err != nil {
		panic("httplimit: ClientIP: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return key
}

// NewClientIP is [ClientIP] for proxies that come from a configuration: the error lists every entry
// that is invalid.
func NewClientIP(trusted ...string) (KeyFunc, error) {
	key, err := clientip.Key(trusted)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) string { return key(clientip.PeerOf(r), r.Header) }, nil
}

// Header tells clients apart by a request header, such as an API key. The key holds a hash of its
// value, which may be a secret. A request without it has no key. Without a name it returns nil,
// which [By] refuses.
//
// Anybody can write a header. Use it where something in front has verified it, or beside a limit by
// [ClientIP].
func Header(name string) KeyFunc {
	if name == "" {
		return nil
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

// hashed is a value that may be a secret, as a key holds it.
func hashed(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// FirstOf is the first of the keys that a request has:
//
//	FirstOf(Header("X-API-Key"), ClientIP())
//
// It returns nil, which [By] refuses, if there is no key or one that is nil.
func FirstOf(keys ...KeyFunc) KeyFunc {
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k KeyFunc) bool { return k == nil }) {
		return nil
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

// Everyone has all requests share one count, on purpose: to protect what is behind the handler
// rather than to be fair. It is never banned.
func Everyone() KeyFunc {
	return func(*http.Request) string { return everyone }
}

// everyone is what the key of all callers is in this process. No caller knows it: one whose name is
// that of the subject must not be counted with everyone, nor escape bans.
var everyone = bykey.Everyone + rand.Text()
