package gateway_test

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stint-limiter/stint/internal/logtest"
	"github.com/stint-limiter/stint/internal/server/gateway"
)

// BenchmarkGateway is a request from a client on a connection that is kept, through the gateway
// over the memory store, beside a bare ReverseProxy and no proxy at all.
func BenchmarkGateway(b *testing.B) {
	u := upstream(b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	target, err := url.Parse(u.URL)
	if err != nil {
		b.Fatal(err)
	}
	idle := &http.Transport{MaxIdleConnsPerHost: gateway.DefaultIdleConns}
	bare := &httputil.ReverseProxy{Transport: idle, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.SetXForwarded()
	}}
	quiet := to(u.URL)
	quiet.NoAccessLog = true
	logged := to(u.URL)
	logged.Logger = textLog(&logtest.Buffer{})
	for _, c := range []struct {
		name, url string
		status    int
	}{
		{"no proxy", u.URL, 200},
		{"bare proxy", serve(b, bare).URL, 200},
		{"allowed", serve(b, newGateway(b, vast, quiet)).URL, 200},
		{"allowed, logged", serve(b, newGateway(b, vast, logged)).URL, 200},
		{"denied", serve(b, newGateway(b, "tiers: [{name: all, identity: ip, limits: 0/1m}]\n", quiet)).URL, 429},
	} {
		b.Run(c.name, func(b *testing.B) {
			client := &http.Transport{MaxIdleConnsPerHost: 64}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					r, err := http.NewRequest("GET", c.url, nil)
					if err != nil {
						b.Error(err)
						return
					}
					resp, err := client.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != c.status {
						b.Errorf("got %d, want %d", resp.StatusCode, c.status)
						return
					}
				}
			})
		})
	}
}

// vast denies no one anything.
const vast = "tiers: [{name: all, identity: ip, limits: [1000000000/1m, 1000000000000/1d]}]\n"
