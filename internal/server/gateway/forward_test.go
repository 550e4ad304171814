package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
)

// ask sends a request on a connection of its own, without the blank line, and returns all that comes
// back.
func ask(t testing.TB, s *httptest.Server, head string) string {
	t.Helper()
	return talk(t, dial(t, s), head+"\r\nConnection: close\r\n\r\n")
}

// talk sends a text and returns all that comes back.
func talk(t testing.TB, conn net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		t.Fatal(err)
	}
	return string(got)
}

// fieldsOf returns the lines of an echo whose names begin with one of some prefixes.
func fieldsOf(echoed string, prefixes ...string) []string {
	var lines []string
	for line := range strings.Lines(echoed) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(strings.ToLower(line), strings.ToLower(prefix)) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// lies is what a client may say about itself.
var lies = []string{
	"X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2", "X-Forwarded-Host: bank",
	"X-Forwarded-Proto: https", "X-Forwarded-Prefix: /admin",
	"Forwarded: for=203.0.113.3", "X-Real-IP: 203.0.113.4", "True-Client-IP: 203.0.113.5", "X-Original-URL: /admin",
	"X_Forwarded_For: 203.0.113.6",
	"X-Forwarded_Host: bank", "X-User-ID: admin", "X_User-ID: admin", "X-User_ID: admin", "X-Internal: yes",
	"Proxy: evil",
}

var identity = []string{"X-Forwarded", "X_Forwarded", "Forwarded", "X-Real", "True", "X-Original", "X-User", "X_User",
	"X-Internal", "Proxy"}

func TestF10UntrustedPeersCannotSpeakForOthers(t *testing.T) {
	u := upstream(t, echo)
	c := to(u.URL)
	c.Reserved = []string{"x-internal"}
	const text = "client_ip: {trusted_proxies: 192.0.2.0/24}\nclaims: {user: X-User-ID}\n" + open
	g := serve(t, newGateway(t, text, c))
	host := strings.TrimPrefix(g.URL, "http://")
	want := []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: " + host, "X-Forwarded-Proto: http",
		"X-Real-Ip: 127.0.0.1"}
	for _, connection := range []string{
		"Connection: keep-alive",
		"Connection: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, X-Real-IP, X-User-ID",
		"Connection: close, x_forwarded_for, X-Real-IP",
	} {
		_, got := do(t, "GET", g.URL, nil, append(slices.Clone(lies), connection)...)
		if fields := fieldsOf(got, identity...); !slices.Equal(fields, want) {
			t.Errorf("%s: got %q, want %q", connection, fields, want)
		}
	}
}

// No spelling of a reserved field passes that an upstream may read as the field: with other
// characters for the dashes, as CGI and WSGI know it, or in another case. What a trusted proxy says
// passes, and so does everything else that clients say, if its name has letters, digits and dashes
// only.
func TestF10Spellings(t *testing.T) {
	u := upstream(t, echo)
	reserved := []string{
		"X-Original-Method", "X-Envoy-Original-Path", "Proxy-Client-IP", "WL-Proxy-Client-IP",
		"X-Original-Forwarded-For", "X-Original-URL", "X-Original-URI",
		"X-Rewrite-URL", "X-Forwarded-Client-Cert", "Forwarded", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP",
		"X-Client-IP", "X-Cluster-Client-IP",
		"Fastly-Client-IP", "X-ProxyUser-Ip", "X-Envoy-External-Address", "X-Envoy-Upstream-Rq-Timeout-Ms",
		"Script-Name", "Path-Info", "Remote-Addr", "Fly-Client-IP", "CF-Connecting-IPv6",
		"X-Edge-Client", // the field that the set in force reads
	}
	free := []string{"X-HTTP-Method-Override", "X-Original-Filename", "Via", "X-Request-ID", "X-API-Key", "Origin",
		"X-Envoy"}
	aliases := []string{"X_API_Key", "x.api.key", "X-API_Key", "HTTP_X_API_KEY", "X_HTTP_Method_Override", "_",
		"X-API-Key_", "X!API!Key", "X~API~Key"}
	guard := guardOf(t, open)
	g := serve(t, gatewayOver(t, guard, to(u.URL)))
	for trusted, passes := range map[string]bool{"192.0.2.0/24": false, "loopback": true} {
		swap(t, guard, "client_ip: {trusted_proxies: "+trusted+", header: X-Edge-Client}\n"+open)
		with := func(name string) string { return ask(t, g, "GET / HTTP/1.1\r\nHost: x\r\n"+name+": evil") }
		for _, name := range reserved {
			for _, spelled := range []string{
				name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"),
				strings.ToLower(strings.Replace(name, "-", "_", 1)),
				strings.ReplaceAll(name, "-", "."), "HTTP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")),
				"http-" + name,
			} {
				passes := passes && !strings.ContainsAny(spelled, "_.")
				if got := with(spelled); strings.Contains(got, "evil") != passes || !strings.HasPrefix(got, "HTTP/1.1 200 ") {
					t.Errorf("%s from a trusted peer %v: the upstream got %s", spelled, passes, got)
				}
			}
		}
		for _, name := range free {
			if got := with(name); !strings.Contains(got, "evil") {
				t.Errorf("%s: the upstream got %s", name, got)
			}
		}
		for _, name := range aliases {
			if got := with(name); strings.Contains(got, "evil") || !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("%s: the upstream got %s", name, got)
			}
		}
	}
}

func TestTrustedProxiesAreAppendedTo(t *testing.T) {
	u := upstream(t, echo)
	g := front(t, trusting, u.URL)
	host := strings.TrimPrefix(g.URL, "http://")
	for _, test := range []struct{ sent, want []string }{
		{nil, []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: " + host, "X-Forwarded-Proto: http"}},
		{
			[]string{"X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2", "X-Forwarded-Host: shop",
				"X-Forwarded-Proto: https", "X-Real-IP: 203.0.113.4",
				"Forwarded: for=203.0.113.3", "X-User-ID: 42",
				"Connection: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, X-Real-IP, X-User-ID, Forwarded"},
			[]string{"Forwarded: for=203.0.113.3, for=127.0.0.1;proto=http", "X-Forwarded-For: 203.0.113.1, 203.0.113.2, 127.0.0.1", "X-Forwarded-Host: shop",
				"X-Forwarded-Proto: https", "X-Real-Ip: 203.0.113.4", "X-User-Id: 42"},
		},
	} {
		_, got := do(t, "GET", g.URL, nil, test.sent...)
		if fields := fieldsOf(got, identity...); !slices.Equal(fields, test.want) {
			t.Errorf("%q: got %q, want %q", test.sent, fields, test.want)
		}
	}
}

func TestHopByHopFieldsEndHere(t *testing.T) {
	u := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		head := readHead(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: "+strconv.Itoa(len(head))+"\r\n\r\n"+head)
	})
	g := front(t, open, u)
	resp, got := do(t, "GET", g.URL, nil, "Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: 5",
		"Proxy-Authorization: x", "Proxy-Connection: x", "TE: trailers, gzip", "X-End: 1", "Accept-Encoding: gzip")
	for _, gone := range []string{"X-Hop", "Keep-Alive", "Proxy-", "Connection", "trailers, gzip"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s reached the upstream:\n%s", gone, got)
		}
	}
	for _, there := range []string{"X-End: 1\r\n", "Te: trailers\r\n", "Accept-Encoding: gzip\r\n"} {
		if !strings.Contains(got, there) {
			t.Errorf("%s did not reach the upstream:\n%s", there, got)
		}
	}
	if h := resp.Header; h.Get("X-Hop") != "" || h.Get("Keep-Alive") != "" || h.Get("X-End") != "1" || resp.Close ||
		resp.ContentLength != int64(len(got)) {
		t.Errorf("response: got %v, a length of %d, close %v", h, resp.ContentLength, resp.Close)
	}
	if _, ok := resp.Header["Content-Type"]; ok || len(resp.Header.Values("Date")) != 1 {
		t.Errorf("a content type or a date was made up: %v", resp.Header)
	}
}

// readHead returns the head of a request, with its line ends.
func readHead(r *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

// Upgrades to anything but websocket would be a way for requests to pass unseen.
func TestOnlyWebsocketUpgrades(t *testing.T) {
	heads := make(chan string, 1)
	u := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHead(r)
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	})
	g := front(t, open, u)
	for _, fields := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n",
		"",
	} {
		body := ""
		if strings.Contains(fields, "Content-Length") {
			body = "x"
		}
		conn := dial(t, g)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n"+body)
		if resp := response(t, bufio.NewReader(conn)); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%q: got %d, want 502 for an upgrade that was not requested", fields, resp.StatusCode)
		}
		if head := receive(t, "a request", heads); strings.Contains(head, "pgrade") || strings.Contains(head, "Accept-Encoding") {
			t.Errorf("%q: the upstream was asked for an upgrade, or for an encoding that the client did not name:\n%s", fields, head)
		}
	}
	if got := talk(t, dial(t, g), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: w\xffs\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("a protocol that is no text: got %s", got)
	}
}

func TestReservedIsForTrailersToo(t *testing.T) {
	trailers := make(chan http.Header, 1)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
	})
	for text, want := range map[string]string{open: "", trusting: "42"} {
		g := serve(t, newGateway(t, text, config.Gateway{Routes: to(u.URL).Routes, Reserved: []string{"X-User-ID"}}))
		talk(t, dial(t, g), "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-User-ID\r\n\r\n"+
			"1\r\nx\r\n0\r\nX-Sum: 1\r\nX-User-ID: 42\r\nContent-Length: 7\r\nX-Unannounced: 1\r\n\r\n")
		got := receive(t, "trailers", trailers)
		if got.Get("X-Sum") != "1" || got.Get("X-User-Id") != want || got.Get("Content-Length") != "" ||
			got.Get("X-Unannounced") != "" {
			t.Errorf("got %v, want X-Sum, X-User-Id %q and no more", got, want)
		}
	}
}

// A peer on a Unix socket has no address to append, and calls itself what it likes.
func TestUnixPeers(t *testing.T) {
	u := upstream(t, echo)
	for text, want := range map[string][]string{
		open: {"X-Forwarded-Host: x", "X-Forwarded-Proto: http"},
		"client_ip: {trusted_proxies: unix}\n" + open: {"X-Forwarded-For: 203.0.113.1", "X-Forwarded-Host: x",
			"X-Forwarded-Proto: http"},
	} {
		path := filepath.Join(t.TempDir(), "gateway")
		l := testkit.Must(net.Listen("unix", path))(t)
		s := httptest.NewUnstartedServer(newGateway(t, text, to(u.URL)))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		conn := testkit.Must(net.Dial("unix", path))(t)
		defer conn.Close()
		got := talk(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.1\r\nConnection: close\r\n\r\n")
		if fields := fieldsOf(got, identity...); !slices.Equal(fields, want) {
			t.Errorf("%q: got %q, want %q", text, fields, want)
		}
	}
}
