package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// someRules have tiers, a policy that depends on them, one in shadow, and an API.
const someRules = `
bans: {after: 0}
tiers:
  - {name: users, match: {claim: {user: "*"}}, identity: user, limits: 3/1h}
  - {name: anyone, identity: ip, limits: 2/1h}
policies:
  - {name: search, match: {path: /search}, limits: {users: 2/1m, default: 1/1m}}
  - {name: trial, match: {path: /trial}, limits: 1/1m, shadow: true}
  - {name: open, match: {path: /open}, skip: true}
outbound:
  igdb: {limits: [4/1s, 100/1h]}
`

// token is that of alice, who may change things.
const token = "token-of-an-operator"

// rig is a dashboard over a limiter that works.
type rig struct {
	t       testing.TB
	monitor *observe.Monitor
	guard   *policy.Guard
	board   *dashboard
	close   context.CancelFunc
	log     *testkit.Buffer
	url     string
}

// newRig returns a rig whose dashboard is served without a guard, and changed by alice.
func newRig(t testing.TB, adjust ...func(*Config)) *rig {
	t.Helper()
	r := newBoard(t, adjust...)
	server := httptest.NewServer(r.board)
	t.Cleanup(server.Close)
	t.Cleanup(r.close) // before the server, which waits for streams
	r.url = server.URL
	return r
}

// newBoard returns a rig whose dashboard is not served.
func newBoard(t testing.TB, adjust ...func(*Config)) *rig {
	t.Helper()
	store := guardtest.Memory(t)
	r := &rig{t: t, log: &testkit.Buffer{}}
	var err error
	r.monitor, err = observe.New(observe.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.monitor.Close() })
	r.guard = guardtest.New(t, simulate.Timeless{Store: store}, someRules, policy.GuardConfig{Observer: r.monitor})
	c := Config{
		Monitor: r.monitor,
		Store:   store,
		Set:     r.guard.Set,
		Protect: func(next http.Handler) http.Handler { return next },
		Who: func(r *http.Request) (string, bool) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				return "", false
			}
			return "alice", true
		},
		Logger: slog.New(slog.NewJSONHandler(r.log, nil)), Version: "v1.2.3",
	}
	for _, f := range adjust {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r.close = cancel
	handler := testkit.Must(New(ctx, c))(t)
	r.board = handler.(*dashboard)
	return r
}

// ask decides on a request of a user, or of an address if it is "".
func (r *rig) ask(user, path string) bool {
	r.t.Helper()
	in := policy.Input{Method: http.MethodGet, Host: "example.com", Path: path,
		Peer: netip.MustParseAddr("203.0.113.9")}
	if user != "" {
		in.Claims = guardtest.Claims{"user": user}
	}
	var v policy.Verdict
	if err := r.guard.Decide(r.t.Context(), &in, &v); err != nil {
		r.t.Fatal(err)
	}
	return v.Decision.Allowed
}

// call makes a request with header fields, each as "Name: value", and reads the answer.
func (r *rig) call(method, path, body string, fields ...string) (*http.Response, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response, string(text)
}

// Header fields: of an operator, and of a body.
const (
	asAlice = "Authorization: Bearer " + token
	asJSON  = "Content-Type: application/json"
)

// ref stands for a subject.
func (r *rig) ref(subject string) string { return refOf(r.monitor, subject) }

// short is what those see of a subject who may not operate.
func (r *rig) short(subject string) string { return label.Tagged(subject, r.ref(subject)) }

// get reads the value at a path.
func (r *rig) get(path string, into any, fields ...string) {
	r.t.Helper()
	response, text := r.call(http.MethodGet, path, "", fields...)
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s: got %d, %s", path, response.StatusCode, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.t.Fatalf("GET %s: %v in %s", path, err, text)
	}
}

// post changes something as alice.
func (r *rig) post(path, body string) (int, string) {
	r.t.Helper()
	response, text := r.call(http.MethodPost, path, body, asJSON, asAlice)
	return response.StatusCode, text
}

// refused makes a request that is refused with a status and a word, and returns the sentence that
// says why.
func (r *rig) refused(status int, word, method, path, body string, fields ...string) string {
	r.t.Helper()
	response, text := r.call(method, path, body, fields...)
	var p answer.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Error == "" || p.Message == "" {
		r.t.Fatalf("got %s, want a problem: %v", text, err)
	}
	if response.StatusCode != status || p.Error != word {
		r.t.Errorf("%s %.60s %.60s with %v: got %d, %+v; want %d, %s", method, path, body, fields,
			response.StatusCode, p, status, word)
	}
	return p.Message
}
