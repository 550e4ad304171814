package proxies

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestSizes has questions and answers be large: they are not taken for an outage of stint, in which
// requests go on unlimited.
func TestSizes(t *testing.T) {
	t.Parallel()
	binary := proxytest.BuildStint(t)
	for _, p := range []proxytest.Proxy{proxytest.Nginx, proxytest.Caddy, proxytest.HAProxy} {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			// A busy machine is no outage, either.
			patient := []string{"1500ms", "1m"}
			t.Run("answers", func(t *testing.T) {
				config := testkit.TempFile(t, "stint.yaml", manyLimits())
				testLargeAnswers(t, startSite(t, proxytest.NewStint(t, binary, "--config", config), p, patient...))
			})
			t.Run("headers", func(t *testing.T) {
				limiter := proxytest.NewStint(t, binary, "--config", "stint.yaml")
				testLargeHeaders(t, startSite(t, limiter, p, patient...))
			})
		})
	}
}

// manyLimits is a configuration with 80 limits for /things, with long names, that allow one
// request.
func manyLimits() string {
	text := "client_ip: {trusted_proxies: loopback}\nheaders: {format: [x, draft-11]}\n" +
		"tiers: [{name: anonymous, identity: ip, limits: 1000/1h}]\npolicies:\n"
	for i := range 5 {
		text += fmt.Sprintf("  - {name: policy-%d-%s, match: {path: /things}, identity: ip, limits: [", i, strings.Repeat("n", 50))
		for k := range 16 {
			text += fmt.Sprintf("'limit-%d-%s: 1/1h', ", k, strings.Repeat("n", 50))
		}
		text += "]}\n"
	}
	return text
}

func testLargeAnswers(t *testing.T, s *site) {
	c := client{s, "127.0.0.2"}
	a := c.curl(t, "/things")
	wantStatus(t, a, http.StatusOK)
	wantFields(t, a, aboutLimits...)
	for range 4 {
		a := c.curl(t, "/things")
		wantStatus(t, a, http.StatusTooManyRequests)
		wantFields(t, a, append([]string{"Retry-After"}, aboutLimits...)...)
	}
	s.application.arrived(t, 1)
}

// testLargeHeaders has a client that has used up its limit send large requests, many at once.
func testLargeHeaders(t *testing.T, s *site) {
	c := client{s, "127.0.0.2"}
	c.exhaust(t, anonymousLimit, "/things")
	s.application.take()
	c.sendLarge(t)
	for _, r := range s.application.take() {
		t.Errorf("the application got %s %.30s", r.method, r.target)
	}
	wantStatus(t, c.curl(t, "/things"), http.StatusTooManyRequests)
}

// sendLarge makes large requests, many at once.
func (c client) sendLarge(t *testing.T) {
	t.Helper()
	var requests []string
	for _, size := range sizes() {
		text := strings.Repeat("x", size)
		const rest = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
		requests = append(requests,
			"GET /things"+rest+"X-Large: "+text+"\r\n\r\n",
			"GET /things"+rest+strings.Repeat("Cookie: "+strings.Repeat("x", 990)+"\r\n", size/1000)+"\r\n",
			"GET /things/"+text+rest+"\r\n",
			"GET /things?"+text+rest+"\r\n",
			"GET /things/"+strings.Repeat("\u00fc", size/2)+rest+"\r\n",
			"GET /things HTTP/1.1\r\nHost: "+text+"\r\nConnection: close\r\n\r\n",
			"GET http://"+text+"/things HTTP/1.1\r\nHost: "+text+"\r\nConnection: close\r\n\r\n",
		)
	}
	var group sync.WaitGroup
	next := make(chan string)
	for range 16 {
		group.Go(func() {
			for request := range next {
				c.send(t.Context(), request)
			}
		})
	}
	for _, request := range requests {
		next <- request
	}
	close(next)
	group.Wait()
}

// sizes are more and less than proxies and stint take.
func sizes() []int {
	list := []int{20_000, 30_000, 32_000, 33_000, 40_000, 50_000, 60_000, 64_000, 66_000, 68_000, 70_000, 100_000}
	for size := 7_500; size < 17_000; size += 250 {
		list = append(list, size)
	}
	for range 10 {
		list = append(list, 500_000, 1_000_000)
	}
	return list
}

// send makes a request, and waits until it is answered or refused.
func (c client) send(ctx context.Context, request string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.address)}}
	conn, err := dialer.DialContext(ctx, "tcp", c.site.address)
	if err != nil {
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return
	}
	// The proxy may answer before all of it is written, and close the connection.
	_, _ = io.WriteString(conn, request)
	_, _ = io.Copy(io.Discard, conn)
}
