package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
)

// field returns the value of a field of a log entry.
func field(line, name string) string {
	_, rest, _ := strings.Cut(line, " "+name+"=")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return strings.Trim(value, `"`)
}

func TestAccessLog(t *testing.T) {
	const text = `
tiers: [{name: all, identity: ip, limits: 100/1m}]
policies: [{name: search, match: {path: /search}, limits: 1/1h}]
`
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "found") })
	for _, query := range []bool{false, true} {
		c, log := logged(u.URL)
		c.AccessLogQuery = query
		g := newGateway(t, text, c)
		for range 2 {
			r := httptest.NewRequest("GET", "http://shop/search?token=s3cr3t", nil)
			r.Header.Set("Authorization", "s3cr3t")
			g.ServeHTTP(httptest.NewRecorder(), r)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("got %d lines, want 2:\n%s", len(lines), log.String())
		}
		for i, want := range []map[string]string{
			{"method": "GET", "host": "shop", "path": "/search", "status": "200", "bytes": "5", "tier": "all",
				"policy": "search", "route": "search", "limited": "false", "key": "ip:192.0.2.x", "retry_after": "",
				"peer": "192.0.2.1", "upstream": strings.TrimPrefix(u.URL, "http://"), "level": "INFO"},
			{"status": "429", "tier": "all", "policy": "search", "route": "search", "limited": "true", "upstream": "",
				"key": "ip:192.0.2.x", "level": "INFO"},
		} {
			for name, value := range want {
				if got := field(lines[i], name); got != value {
					t.Errorf("%s of entry %d: got %q, want %q:\n%s", name, i, got, value, lines[i])
				}
			}
			wait, err := time.ParseDuration(field(lines[i], "retry_after"))
			if i == 1 && (err != nil || wait <= 0 || wait > time.Hour) {
				t.Errorf("the denial says to retry after %v, %v; want an hour at most", wait, err)
			}
			if strings.Contains(lines[i], "s3cr3t") != query || field(lines[i], "duration") == "" {
				t.Errorf("got %s", lines[i])
			}
		}
	}
}

// downRoute is one to an upstream that is down.
func downRoute(t *testing.T) config.Route {
	t.Helper()
	return config.Route{PathPrefix: "/down", Upstream: "http://" + unused(t)}
}

func TestAccessLogSampling(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) {})
	for _, c := range []struct {
		off       bool
		every     int
		well, bad int
	}{
		{false, 0, 20, 10},
		{false, 10, 2, 10},
		{true, 0, 0, 10},
	} {
		config, log := logged(u.URL)
		config.Routes = append(config.Routes, downRoute(t))
		config.NoAccessLog, config.AccessLogEvery = c.off, c.every
		g := newGateway(t, open, config)
		for range 10 {
			g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/well", nil))
			g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/well", nil))
			g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/down", nil))
		}
		well, bad := strings.Count(log.String(), "status=200"), strings.Count(log.String(), "status=502")
		if well != c.well || bad != c.bad {
			t.Errorf("off %v, every %d: got %d and %d entries, want %d and %d", c.off, c.every, well, bad, c.well, c.bad)
		}
	}
}

// TestAccessLogOfRefusals: no limit bounds how many requests are refused, so the log does, and
// counts the others. What is served is logged wholly, and so are denials if the configuration says.
func TestAccessLogOfRefusals(t *testing.T) {
	const text = "tiers: [{name: all, identity: ip, limits: %s}]\nlog: {denials: %d}\n"
	for _, c := range []struct {
		name, limits string
		denials      int
		target       string
		status       string
		first        int // logged of 250 in a second
	}{
		{"denied", "0/1m", 5, "/", "429", 100},
		{"denied, and not in other logs", "0/1m", 0, "/", "429", 100},
		{"denied, all logged", "0/1m", 1000000, "/", "429", 250},
		{"malformed", "0/1m", 5, `/a\b`, "400", 100},
		{"served", "1000/1m", 5, "/", "404", 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, log := logged("http://127.0.0.1:1")
				config.Routes[0].PathPrefix = "/elsewhere"
				g := newGateway(t, fmt.Sprintf(text, c.limits, c.denials), config)
				ask := func() {
					r := httptest.NewRequest("GET", "/", nil)
					r.URL.Path, r.RequestURI = c.target, c.target
					g.ServeHTTP(httptest.NewRecorder(), r)
				}
				for range 250 {
					ask()
				}
				if got := strings.Count(log.String(), " status="+c.status+" "); got != c.first {
					t.Errorf("%d entries of 250 requests in a second, want %d", got, c.first)
				}
				if strings.Contains(log.String(), "unlogged=") {
					t.Error("something was left out before the first entry")
				}
				time.Sleep(time.Second)
				ask()
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				want := ""
				if left := 250 - c.first; left > 0 {
					want = strconv.Itoa(left)
				}
				if got := field(lines[len(lines)-1], "unlogged"); got != want {
					t.Errorf("the entry a second later says that %q were left out, want %q", got, want)
				}
			})
		})
	}
}

// For any input of a client or an upstream, an entry is one short line without secrets.
func TestF34HostileValues(t *testing.T) {
	const secret = "s3cr3t-t0ken"
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	var structured testkit.Buffer
	c, text := logged(u.URL)
	c.Routes = append(c.Routes, downRoute(t))
	for _, logger := range []*slog.Logger{c.Logger, slog.New(slog.NewJSONHandler(&structured, nil))} {
		c.Logger = logger
		g := newGateway(t, open, c)
		for _, hostile := range []string{
			"\r\nlevel=ERROR msg=x", "\x00\x1b[31m", "\xff\xfe", `" level=ERROR`, strings.Repeat("A", 10_000),
			"\u2028level=ERROR", "级别=ERROR", strings.Repeat("\x01", 10_000),
		} {
			for _, place := range []string{"method", "host", "path", "down", "query", "header", "upgrade"} {
				r := httptest.NewRequest("GET", "/path", nil)
				switch place {
				case "method":
					r.Method = hostile
				case "host":
					r.Host = hostile
				case "path":
					r.URL.Path = "/" + hostile
				case "down":
					r.URL.Path = "/down/" + hostile
				case "query":
					r.URL.RawQuery = url.QueryEscape(hostile) + secret
				case "header":
					r.Header["X-Api-Key"] = []string{hostile + secret}
				case "upgrade":
					r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{hostile}
				}
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}
	for prefix, log := range map[string]string{"time=": text.String(), `{"time":`: structured.String()} {
		if got, want := strings.Count(log, "\n"), 8*7; got != want {
			t.Errorf("got %d lines, want %d", got, want)
		}
		for line := range strings.Lines(log) {
			if !strings.HasPrefix(line, prefix) || len(line) > 2000 || strings.Contains(line, secret) {
				t.Errorf("not an entry of a log: %.300q of %d bytes", line, len(line))
			}
			for _, c := range line[:len(line)-1] {
				if (c < ' ' || c > '~') && c != 'µ' { // of durations
					t.Errorf("the character %q in %.300q", c, line)
					break
				}
			}
			if prefix == "time=" && strings.Count(line, " level=")-strings.Count(line, `\" level=`) != 1 {
				t.Errorf("two levels: %.300q", line)
			}
		}
	}
}
