package httplimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

// labels are the values that metrics would have as labels.
type labels struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (l *labels) Observe(_ context.Context, event stint.Event) {
	v, ok := event.(*policy.Verdict)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names := []string{v.Tier, v.Route, v.Skipped, fmt.Sprint(v.Err)}
	for _, r := range v.Results {
		names = append(names, r.Rule.Policy, r.Rule.Tier, r.Rule.Name())
	}
	for _, name := range names {
		l.seen[name] = true
	}
}

// For any input of a client: the number of labels stays the same, log entries are lines, secrets stay
// secret, and nothing of it comes back in an answer.
func TestF34HostileValues(t *testing.T) {
	const text = `
headers: {format: [x, draft-11]}
client_ip: {trusted_proxies: private}
claims: {user: X-User-ID}
identities: {key: {header: X-API-Key}, session: {cookie: session}}
request_id: {header: Idempotency-Key}
tiers:
  - {name: keys, match: {header: {X-API-Key: "*"}}, identity: key, limits: 1/1h}
  - {name: users, identity: user, scope: route, limits: 1/1h}
  - {name: sessions, identity: session, limits: 1/1h}
  - {name: anonymous, identity: ip, limits: 1/1h}
policies:
  - {name: item, match: {path: "/items/{id}"}, per: [id, method], limits: 1/1h}
  - {name: priced, match: {path: /priced/**}, cost: {header: X-Price, max: 10}}
  - {name: site, match: {host: [example.com, example.org]}, per: host, limits: 1/1h}
  - {name: assets, match: {path: /static/**}, skip: true}
`
	var log bytes.Buffer
	seen := &labels{seen: map[string]bool{}}
	guard := guardtest.New(t, memory(t), text,
		policy.GuardConfig{Observer: seen, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h := httplimit.New(guard)(http.NotFoundHandler())
	const secret = "s3cr3t-t0ken"
	shapes := []string{
		secret + "%d", secret + "\r\nX-Injected: %d", secret + "\x00%d", secret + "\xff\xfe%d", "{" + secret + "}:%d",
		secret + `",evil="%d`,
		secret + strings.Repeat("A", 10_000) + "%d", "级别=ERROR " + secret + "%d", secret + "\u2028level=ERROR%d",
	}
	for i := range 40 {
		for _, shape := range shapes {
			hostile := fmt.Sprintf(shape, i)
			for _, name := range []string{"X-API-Key", "X-User-ID", "Cookie", "Idempotency-Key", "X-Forwarded-For",
				"X-Price", "Accept", ":method", ":host", ":path"} {
				for range 2 { // the second is denied
					r := request(http.MethodGet, "/items/1")
					r.RemoteAddr = "10.0.0.1:80"
					switch name {
					case ":method":
						r.Method = hostile
					case ":host":
						r.Host = hostile
					case ":path":
						r.URL.Path = "/items/" + hostile
					case "Cookie":
						r.Header["Cookie"] = []string{"session=" + hostile}
					case "X-Price":
						r.URL.Path = "/priced/x"
						fallthrough
					default:
						r.Header[http.CanonicalHeaderKey(name)] = []string{hostile}
					}
					w := &capture{header: http.Header{}}
					h.ServeHTTP(w, r)
					if all := fmt.Sprint(w.header) + w.body.String(); strings.Contains(all, secret) ||
						strings.Contains(all, "Injected") {
						t.Fatalf("%s of %.50q came back: %s", name, hostile, all)
					}
				}
			}
		}
	}
	want := []string{"", "<nil>", "anonymous", "item", "keys", "priced", "sessions", "site", "users"}
	if got := slices.Sorted(maps.Keys(seen.seen)); !slices.Equal(got, want) {
		t.Errorf("labels: got %q, want %q", got, want)
	}
	if log.Len() == 0 {
		t.Error("no denial was logged")
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Count(line, "level=") != 1 || len(line) > 500 {
			t.Errorf("not a line of a log: %q", line)
		}
		if strings.Contains(line, secret) {
			t.Errorf("a secret was logged: %q", line)
		}
	}
}

// capture is a ResponseWriter that keeps the header as it was set.
type capture struct {
	header http.Header
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) Write(p []byte) (int, error) { return c.body.Write(p) }
func (*capture) WriteHeader(int)               {}
