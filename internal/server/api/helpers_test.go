package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

var discard = slog.New(slog.DiscardHandler)

// rules is what most tests decide by.
const rules = `
client_ip: {trusted_proxies: [10.0.0.0/8]}
claims: {user: X-User}
tiers:
  - {name: staff, match: {claim: {staff: "*"}}, identity: user, limits: unlimited}
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: 100/1m burst 3x, budget: 50/1h}
  - {name: free, identity: user, limits: 10/1m, budget: 20/1h}
  - {name: anonymous, identity: ip, limits: 3/1m}
policies:
  - {name: health, match: {path: /healthz}, skip: true}
  - {name: login, match: {method: POST, path: /login}, identity: ip, limits: 2/15m}
  - {name: search, match: {path: /search}, limits: {pro: 30/1m, default: 5/1m}, cost: 4}
  - {name: export, match: {path: /export}, limits: {staff: unlimited, default: 1/1m}}
  - {name: trial, match: {path: /trial}, limits: 1/1m, shadow: true}
  - {name: slots, match: {path: /slow}, limits: 2/30s concurrency}
`

// server is an API under test, whose every answer is held against its document.
type server struct {
	t       testing.TB
	api     *api.API
	handler http.Handler
}

// serve returns an API over a store. It answers everybody, and accepts limits of callers.
func serve(t testing.TB, store stint.Store, text string, change ...func(*api.Config)) *server {
	t.Helper()
	return serveGuarded(t, store, text, policy.GuardConfig{}, change...)
}

// serveGuarded is serve with somebody who is told what the guard decides.
func serveGuarded(t testing.TB, store stint.Store, text string, told policy.GuardConfig, change ...func(*api.Config)) *server {
	t.Helper()
	conf := testkit.Must(config.Parse("test.yaml", []byte(text)))(t)
	guard := guardtest.New(t, store, text, told)
	apis := testkit.Must(outbound.New(store, conf.Outbound, outbound.Config{Logger: discard}))(t)
	t.Cleanup(apis.Close)
	c := api.Config{Public: true, Known: true, AdHoc: true, Outbound: apis, Logger: discard}
	for _, f := range change {
		f(&c)
	}
	a := testkit.Must(api.New(guard, store, c))(t)
	return &server{t: t, api: a, handler: a.Handler()}
}

// answer is an answer of the API.
type answer struct {
	*httptest.ResponseRecorder
	t testing.TB
}

// looks is a peek whatever it answers.
func (s *server) looks(body string) string {
	s.t.Helper()
	var d decision
	a := s.post("/v1/peek", body)
	a.into(a.Code, &d)
	return usage(d)
}

// mistaken posts a body whose first mistake must be in a field.
func (s *server) mistaken(path, body, field string) {
	s.t.Helper()
	if p := s.post(path, body).problem(http.StatusBadRequest); p.Mistakes[0].Field != field {
		s.t.Errorf("%s: got %+v, want a mistake in %s", body, p, field)
	}
}

func withCharge(charge, more string) string { return `{"charge":"` + charge + `"` + more + `}` }

// post sends a body that is meant to be good, or to be wrong in what it says and not in its form:
// if it is answered with a decision, it fits the document.
func (s *server) post(path, body string, fields ...string) answer {
	s.t.Helper()
	r := request(path, body)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, value)
	}
	return s.send(r, body)
}

func request(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// get is a request of a peer with header fields ("Name: value").
func get(target, peer string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func (s *server) send(r *http.Request, body string) answer {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	conforms(s.t, r.Method, r.URL.Path, body, w)
	return answer{w, s.t}
}

// What answers are, as openapi.json describes them.
type (
	decision = api.Decision
	mistake  = api.Mistake
	problem  = api.Problem
	batch    = api.Results
)

// into reads the body of an answer of a status.
func (a answer) into(status int, v any) {
	a.t.Helper()
	if a.Code != status {
		a.t.Fatalf("status %d, want %d: %s", a.Code, status, a.Body)
	}
	d := json.NewDecoder(bytes.NewReader(a.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		a.t.Fatalf("%v: %s", err, a.Body)
	}
}

// loosely reads some members of the body of an answer.
func (a answer) loosely(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body.Bytes(), v); err != nil {
		a.t.Fatalf("%v: %s", err, a.Body)
	}
}

func (a answer) decision(status int) (d decision) {
	a.t.Helper()
	a.into(status, &d)
	return d
}

func (a answer) problem(status int) (p problem) {
	a.t.Helper()
	a.into(status, &p)
	return p
}

func (a answer) changed() bool {
	a.t.Helper()
	changed, _ := a.charged()
	return changed
}

// charged returns what an amendment answers: -1 is no cost.
func (a answer) charged() (changed bool, cost int64) {
	a.t.Helper()
	var c struct {
		Changed bool   `json:"changed"`
		Charged *int64 `json:"charged"`
	}
	if a.into(http.StatusOK, &c); c.Charged == nil {
		return c.Changed, -1
	}
	return c.Changed, *c.Charged
}

// quote writes a text as JSON.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// conforms holds a request and its answer against the document: the body if it was good, and what
// was answered in any case.
func conforms(t testing.TB, method, path, body string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusNotFound {
		return
	}
	s := specification(t)
	operation := s.operation(path)
	if operation == nil {
		t.Fatalf("%s is not in the document", path)
	}
	if method == http.MethodPost && (w.Code == http.StatusOK || w.Code == http.StatusTooManyRequests) {
		s.validate(t, bodyOf(path)+"/schema", []byte(body))
	}
	response, ok := operation["responses"].(map[string]any)[strconv.Itoa(w.Code)]
	if !ok {
		t.Fatalf("%s does not know the status %d: %s", path, w.Code, w.Body)
	}
	at := "/paths/" + escape(path) + "/" + s.method(path) + "/responses/" + strconv.Itoa(w.Code)
	if ref, ok := response.(map[string]any)["$ref"].(string); ok {
		at = strings.TrimPrefix(ref, "#")
	}
	s.validate(t, at+"/content/application~1json/schema", w.Body.Bytes())
	declared, _ := s.at(at + "/headers").(map[string]any)
	for name := range w.Header() {
		// What every answer has says nothing of the API.
		general := []string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"}
		if !slices.Contains(general, name) &&
			!slices.ContainsFunc(sortedKeys(declared), func(d string) bool { return strings.EqualFold(d, name) }) {
			t.Errorf("%s %d: the document does not have the header field %s", path, w.Code, name)
		}
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: Content-Type %q", path, got)
	}
}

func escape(path string) string { return strings.ReplaceAll(path, "/", "~1") }

var errStore = errors.New("no store today")

// failing is a store that fails.
var failing = guardtest.Failing{Err: &stint.StoreError{Op: "test", Err: errStore}}

// amendFails is a store whose charges cannot be amended.
type amendFails struct{ *memorystore.Store }

func (amendFails) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, &stint.StoreError{Op: "amend", Err: errStore}
}

// endless is a body that does not end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += int64(len(p))
	return len(p), nil
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	return testkit.Must(json.Marshal(v))(t)
}
