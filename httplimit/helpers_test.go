package httplimit_test

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

var discard = slog.New(slog.DiscardHandler)

// silent discards what servers log.
var silent = log.New(io.Discard, "", 0)

// memory returns a memory store that is closed with the test.
var memory = guardtest.Memory

// guardOver returns a guard over a store.
func guardOver(t testing.TB, store stint.Store, text string) *policy.Guard {
	t.Helper()
	return guardtest.New(t, store, text, policy.GuardConfig{})
}

// guardOf returns a guard over a memory store.
func guardOf(t testing.TB, text string) *policy.Guard { return guardOver(t, memory(t), text) }

// claimHeader takes claims from headers, as a test's stand-in for authentication: "user" from
// X-User.
func claimHeader(r *http.Request, name string) string { return r.Header.Get("X-" + name) }

// ok answers every request.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })

// ask sends a GET with header fields ("Name: value") through a handler.
func ask(h http.Handler, path string, fields ...string) *httptest.ResponseRecorder {
	return send(h, http.MethodGet, path, fields...)
}

func send(h http.Handler, method, path string, fields ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(method, path, fields...))
	return w
}

// request returns a request from 192.0.2.1 with header fields.
func request(method, path string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// outgoing returns a request for a client to send.
func outgoing(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	return r
}

// fetch sends a request, and reads all of the answer.
func fetch(t testing.TB, client http.RoundTripper, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp := testkit.Must(client.RoundTrip(r))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	return resp, string(text)
}

// transportOf returns a transport that speaks HTTP/1, or HTTP/2 without TLS.
func transportOf(t testing.TB, http2 bool) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: time.Minute}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// body is a JSON answer of either form.
type body struct {
	Error      string   `json:"error"`
	Message    string   `json:"message"`
	RetryAfter int64    `json:"retry_after_seconds"`
	Policy     string   `json:"policy"`
	Tier       string   `json:"tier"`
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Detail     string   `json:"detail"`
	Violated   []string `json:"violated-policies"`
	Contact    string   `json:"contact"`
	Denial     string   `json:"denial"`
}

// bodyOf reads a JSON answer, which must have no other members.
func bodyOf(t testing.TB, w *httptest.ResponseRecorder) (b body) {
	t.Helper()
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if id := w.Header().Get("X-RateLimit-Denial"); id != "" && b.Denial != id {
		t.Errorf("the body has the id %q, the header %q", b.Denial, id)
	}
	b.Denial = "" // it is another each time
	return b
}

var errStore = errors.New("no store today")

// failing is a store that fails.
var failing = guardtest.Failing{Err: &stint.StoreError{Op: "take", Err: errStore}}

// tierTable is the five tiers of the documents, and one that is never denied anything.
const tierTable = `
identities: {service: {claim: service, type: internal}}
tiers:
  - {name: vast, match: {claim: {plan: vast}}, identity: user, limits: [1000000000/1m burst 2x, 100000000000/1h, 1000000000000/1d]}
  - {name: internal, identity: service, scope: none, limits: [1000/1m]}
  - {name: enterprise, match: {claim: {plan: enterprise}}, identity: user, limits: [500/1m burst 5x, 10000/1h]}
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: [100/1m burst 3x, 2000/1h, 50000/1d]}
  - {name: free, identity: user, limits: [30/1m burst 2x, 500/1h, 5000/1d]}
  - {name: anonymous, identity: ip, limits: [10/1m burst 2x, 100/1h, 1000/1d]}
`
