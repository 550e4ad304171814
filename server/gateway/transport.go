package gateway

import (
	"cmp"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// continueTimeout is how long an upstream may take to ask for a body that was announced with Expect.
	continueTimeout = time.Second
	// pingAfter and pingTimeout find out that an HTTP/2 connection is dead.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// timeouts are what the routes that share a line have in common; 0 is any time.
type timeouts struct{ dial, responseHeader time.Duration }

// lines are the ways to speak to upstreams: one for each of the timeouts that routes have had so far, so that connections
// outlive a change of the routes.
type lines struct {
	config *Config
	mu     sync.Mutex
	by     map[timeouts]*line
}

// with returns the line with some timeouts.
func (l *lines) with(t timeouts) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[timeouts]*line{}
	}
	if l.by[t] == nil {
		l.by[t] = newLine(l.config, t)
	}
	return l.by[t]
}

func (l *lines) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.by {
		one.usual.CloseIdleConnections()
		one.http2.CloseIdleConnections()
	}
}

// line is a way to speak to upstreams.
type line struct {
	usual *http.Transport // HTTP/1.1, and HTTP/2 with TLS
	http2 *http.Transport // HTTP/2 without TLS
}

func newLine(c *Config, t timeouts) *line {
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
		DisableCompression:     true, // bodies pass as they are
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		Protocols:              new(http.Protocols),
	}
	usual.Protocols.SetHTTP1(true)
	usual.Protocols.SetHTTP2(!c.NoHTTP2)

	plain := usual.Clone()
	plain.Protocols = new(http.Protocols)
	plain.Protocols.SetUnencryptedHTTP2(true)
	return &line{usual: usual, http2: plain}
}

// roundTripper speaks to the upstream of a request's route.
type roundTripper struct{}

// RoundTrip implements [http.RoundTripper]. There are no upgrades in HTTP/2.
func (roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x.route.http2 && !x.upgrade {
		return x.route.line.http2.RoundTrip(r)
	}
	return x.route.line.usual.RoundTrip(r)
}

// bufferSize is that of the buffers that bodies of responses are copied with.
const bufferSize = 32 << 10

// buffers is a pool of them.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
