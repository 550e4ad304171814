package httplimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.Limit(ok, limiter(t, stint.PerMinute(2), stint.PerHour(9)), httplimit.Header("X-API-Key"))
		for range 2 {
			if w := ask(h, "/", "X-API-Key: a"); w.Code != http.StatusOK {
				t.Fatalf("got %d, want 200", w.Code)
			}
		}
		w := ask(h, "/", "X-API-Key: a")
		if w.Code != http.StatusTooManyRequests {
			t.Fatalf("got %d, want 429", w.Code)
		}
		wantFields(t, w.Header(), "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 0", "X-RateLimit-Window: 60",
			"X-RateLimit-Policy: default", "X-RateLimit-Tier:", "X-RateLimit-Cost: 1")
		got := bodyOf(t, w)
		if got.Policy != "default" || got.Tier != "" || got.RetryAfter < 60 || got.RetryAfter > 72 {
			t.Errorf("got %+v, want the policy default and 60 to 72 seconds", got)
		}
		wantFields(t, w.Header(), fmt.Sprint("X-RateLimit-Reset: ", time.Now().Unix()+got.RetryAfter))
		if w := ask(h, "/", "X-API-Key: b"); w.Code != http.StatusOK {
			t.Errorf("another key: got %d, want 200", w.Code)
		}
	})
}

// A place is kept for as long as the request takes, however much longer than it would last by
// itself.
func TestLimitKeepsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := limiter(t, stint.AtOnce(1, time.Second))
		h := httplimit.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(10 * time.Second)
		}), lim, httplimit.Everyone())
		served := make(chan int)
		go func() { served <- ask(h, "/").Code }()
		time.Sleep(9 * time.Second)
		if got := ask(h, "/").Code; got != http.StatusTooManyRequests {
			t.Errorf("a second one at once: got %d, want 429", got)
		}
		if got := <-served; got != http.StatusOK {
			t.Errorf("the first one: got %d, want 200", got)
		}
		if got := ask(h, "/").Code; got != http.StatusOK {
			t.Errorf("afterwards: got %d, want 200", got)
		}
	})
}

func TestKeys(t *testing.T) {
	plain, err := httplimit.ClientIP()
	if err != nil {
		t.Fatal(err)
	}
	proxied, err := httplimit.ClientIP("192.0.2.0/24", "unix")
	if err != nil {
		t.Fatal(err)
	}
	const unix = "unix"
	for _, c := range []struct {
		what   string
		key    httplimit.KeyFunc
		peer   string
		fields []string
		want   string
	}{
		{"peer", plain, "198.51.100.7:1234", nil, "ip:198.51.100.7"},
		{"peer, spoofed", plain, "198.51.100.7:1234", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:198.51.100.7"},
		{"peer, IPv6", plain, "[2001:db8:1:2:3::4]:1234", nil, "ip:2001:db8:1:2::/64"},
		{"untrusted proxy", proxied, "198.51.100.7:1234", []string{"X-Forwarded-For: 203.0.113.9"}, "ip:198.51.100.7"},
		{"trusted proxy", proxied, "192.0.2.1:1234", []string{"X-Forwarded-For: 10.0.0.1, 203.0.113.9"},
			"ip:203.0.113.9"},
		{"Unix socket", plain, unix, nil, ""},
		{"Unix socket with a proxy", proxied, unix, []string{"X-Forwarded-For: 203.0.113.9"}, "ip:203.0.113.9"},
		{"no header", httplimit.Header("X-API-Key"), "192.0.2.1:1", nil, ""},
		{"empty header", httplimit.Header("X-API-Key"), "192.0.2.1:1", []string{"X-API-Key: "}, ""},
		{"header", httplimit.Header("x-api-key"), "192.0.2.1:1", []string{"X-API-Key: secret"},
			"x-api-key:2bb80d537b1da3e38bd30361aa855686"},
		{"first of", httplimit.FirstOf(httplimit.Header("X-API-Key"), plain), "192.0.2.1:1", nil, "ip:192.0.2.1"},
		{"first of none", httplimit.FirstOf(), "192.0.2.1:1", nil, ""},
		{"everyone", httplimit.Everyone(), "192.0.2.1:1", nil, "\x00everyone"},
	} {
		r := request("GET", "/", c.fields...)
		r.RemoteAddr = c.peer
		if c.peer == unix { // whose name looks like an address
			r.RemoteAddr = "192.0.2.1:80"
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
				&net.UnixAddr{Net: "unix", Name: "s"}))
		}
		if got := c.key(r); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
	if _, err := httplimit.ClientIP("10.0.0.0/8", "proxy"); err == nil || !strings.Contains(err.Error(), `"proxy"`) {
		t.Errorf("got error %v, want one that names the entry", err)
	}
}

// On a real Unix socket a client is not who its socket is called after.
func TestUnixSocket(t *testing.T) {
	key, err := httplimit.ClientIP()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	keys := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys <- key(r) })}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	t.Chdir(dir)
	conn, err := net.DialUnix("unix", &net.UnixAddr{Net: "unix", Name: "192.0.2.1:80"},
		&net.UnixAddr{Net: "unix", Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
	if got := <-keys; got != "" {
		t.Errorf("got the key %q, want none", got)
	}
}

// All callers together are never banned, whatever one of them does.
func TestEveryoneIsNotBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := limiter(t, stint.PerMinute(1),
			stint.WithBans(stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Hour}}))
		h := httplimit.Limit(ok, lim, httplimit.Everyone())
		for range 5 {
			ask(h, "/")
		}
		time.Sleep(time.Minute)
		if got := ask(h, "/").Code; got != http.StatusOK {
			t.Errorf("got %d, want 200", got)
		}
	})
}

// Somebody whose name is the word is one caller like any other: counted apart, and banned.
func TestEveryoneIsNobodysName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := limiter(t, stint.PerMinute(1),
			stint.WithBans(stint.BanPolicy{After: 1, Within: time.Minute, Durations: []time.Duration{time.Hour}}))
		all := httplimit.Limit(ok, lim, httplimit.Everyone())
		h := httplimit.Limit(ok, lim, func(r *http.Request) string { return r.Header.Get("X-User") })
		for _, user := range []string{"bob", "everyone"} {
			for range 3 {
				ask(h, "/", "X-User: "+user)
			}
			time.Sleep(time.Minute)
			if got := ask(h, "/", "X-User: "+user).Code; got != http.StatusTooManyRequests {
				t.Errorf("%s: got %d after the denials, want that the caller is banned", user, got)
			}
		}
		if got := ask(all, "/").Code; got != http.StatusOK {
			t.Errorf("all together: got %d, want 200", got)
		}
	})
}

// Some failures are logged every second, with what was asked, and a client that left is none.
func TestLimitLogsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lim, err := stint.New(failing{memory(t)}, stint.PerMinute(1))
		if err != nil {
			t.Fatal(err)
		}
		h := httplimit.Limit(ok, lim, httplimit.Everyone(), httplimit.WithName("search"),
			httplimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 3 {
			for range 100 {
				ask(h, "/")
			}
			time.Sleep(time.Second)
		}
		if got := strings.Count(log.String(), "\n"); got != 15 {
			t.Errorf("got %d lines, want 15:\n%s", got, log.String())
		}
		for _, want := range []string{"level=ERROR", "policy=search", errStore.Error(), "key=everyo…", "limit=1/1m"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("got %s; want %s", log.String(), want)
			}
		}
	})
}

// Mistakes in the program show when it starts.
func TestWrongUse(t *testing.T) {
	lim, guard := limiter(t, stint.PerMinute(1)), guardOf(t, one)
	for _, c := range []struct {
		want string
		use  func()
	}{
		{"httplimit: New: the guard is nil", func() { httplimit.New(nil) }},
		{"httplimit: New: the handler is nil", func() { httplimit.New(guard)(nil) }},
		{"httplimit: Limit: the handler is nil", func() { httplimit.Limit(nil, lim, httplimit.Everyone()) }},
		{"httplimit: Limit: the limiter is nil", func() { httplimit.Limit(ok, nil, httplimit.Everyone()) }},
		{"httplimit: Limit: the key is nil", func() { httplimit.Limit(ok, lim, nil) }},
		{`httplimit: WithName("a b"): want letters`, func() { httplimit.WithName("a b") }},
		{`httplimit: WithName(""): want letters`, func() { httplimit.WithName("") }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, c.want) {
					t.Errorf("got panic %q, want %q", got, c.want)
				}
			}()
			c.use()
		}()
	}
}
