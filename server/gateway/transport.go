package gateway

import (
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

// transports are the ways to speak to upstreams.
type transports struct {
	usual *http.Transport // HTTP/1.1, and HTTP/2 with TLS
	http2 *http.Transport // HTTP/2 without TLS
}

func newTransports(c *Config) *transports {
	usual := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: c.DialTimeout}).DialContext,
		TLSClientConfig:        c.TLS.Clone(),
		TLSHandshakeTimeout:    c.TLSHandshakeTimeout,
		ResponseHeaderTimeout:  c.ResponseHeaderTimeout,
		ExpectContinueTimeout:  continueTimeout,
		IdleConnTimeout:        c.IdleTimeout,
		MaxIdleConnsPerHost:    c.IdleConns,
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
	return &transports{usual: usual, http2: plain}
}

// RoundTrip implements [http.RoundTripper]. There are no upgrades in HTTP/2.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if x := exchangeOf(r.Context()); x.route.http2 && !x.upgrade {
		return t.http2.RoundTrip(r)
	}
	return t.usual.RoundTrip(r)
}

func (t *transports) closeIdle() {
	t.usual.CloseIdleConnections()
	t.http2.CloseIdleConnections()
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
