package gateway

import (
	"cmp"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint/config"
)

const (
	// continueTimeout is the maximum time to wait for an upstream to ask for the body of a request
	// with "Expect: 100-continue".
	continueTimeout = time.Second
	// An HTTP/2 connection is pinged if it has received nothing for pingAfter, and closed if the
	// answer takes longer than pingTimeout.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// timeouts are the timeouts of a transportPair. 0 means no timeout. Routes with the same timeouts
// share a transportPair.
type timeouts struct{ dial, responseHeader time.Duration }

// transports holds a transportPair for each combination of timeouts that any route has used, so
// that connections survive a change to the routes.
type transports struct {
	config *config.Gateway
	mu     sync.Mutex
	by     map[timeouts]*transportPair
}

func (l *transports) with(t timeouts) *transportPair {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[timeouts]*transportPair{}
	}
	if l.by[t] == nil {
		l.by[t] = newTransports(l.config, t)
	}
	return l.by[t]
}

func (l *transports) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.by {
		one.usual.CloseIdleConnections()
		one.http2.CloseIdleConnections()
	}
}

type transportPair struct {
	usual *http.Transport // HTTP/1.1, and HTTP/2 with TLS
	http2 *http.Transport // HTTP/2 without TLS
}

func newTransports(c *config.Gateway, t timeouts) *transportPair {
	usual := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: t.dial}).DialContext,
		TLSClientConfig:        c.TLS.Clone(),
		TLSHandshakeTimeout:    cmp.Or(c.TLSHandshakeTimeout, DefaultTLSHandshakeTimeout),
		ResponseHeaderTimeout:  t.responseHeader,
		ExpectContinueTimeout:  continueTimeout,
		IdleConnTimeout:        cmp.Or(c.IdleTimeout, DefaultIdleTimeout),
		MaxIdleConnsPerHost:    cmp.Or(c.IdleConns, DefaultIdleConns),
		MaxConnsPerHost:        c.MaxConns,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true, // bodies pass unchanged
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		Protocols:              new(http.Protocols),
	}
	usual.Protocols.SetHTTP1(true)
	usual.Protocols.SetHTTP2(!c.NoHTTP2)

	plain := usual.Clone()
	plain.Protocols = new(http.Protocols)
	plain.Protocols.SetUnencryptedHTTP2(true)
	return &transportPair{usual: usual, http2: plain}
}

type roundTripper struct{}

// RoundTrip implements [http.RoundTripper]. It sends upgrade requests over HTTP/1.1, because HTTP/2
// has no upgrades.
func (roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := stateOf(r.Context())
	if x.route.http2 && !x.upgrade {
		return x.route.transports.http2.RoundTrip(r)
	}
	return x.route.transports.usual.RoundTrip(r)
}

const bufferSize = 32 << 10

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
