package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// one is a configuration under which the second request is denied for a minute.
const one = `
headers: {retry_after_jitter: 0%}
tiers: [{name: free, identity: everyone, limits: [1/1m, 5/1h]}]`

const (
	slowDown = "Too many requests. Please slow down."
	tryAgain = "The service cannot take requests at the moment. Please try again."
	problems = "https://iana.org/assignments/http-problem-types#"
)

func TestDeniedAnswers(t *testing.T) {
	for _, c := range []struct {
		what, method, accept, contentType, want string
	}{
		{"no preference", "GET", "", "application/json",
			`{"error":"rate_limited","message":"` + slowDown + `","retry_after_seconds":60,"policy":"free","tier":"free"}` + "\n"},
		{"problem", "GET", "application/problem+json", "application/problem+json",
			`{"type":"` + problems + `quota-exceeded","title":"Quota Exceeded","status":429,"detail":"` + slowDown +
				`","violated-policies":["free-1m"],"retry_after_seconds":60,"policy":"free","tier":"free"}` + "\n"},
		{"plain", "GET", "text/plain", "text/plain; charset=utf-8", slowDown + " Retry after 60 s.\n"},
		{"head", "HEAD", "", "application/json", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			bubble(t, one, func(t *testing.T, h http.Handler) {
				ask(h, "/")
				w := send(h, c.method, "/", "Accept: "+c.accept)
				if w.Code != http.StatusTooManyRequests {
					t.Fatalf("got %d, want 429", w.Code)
				}
				id := w.Header().Get("X-RateLimit-Denial")
				c.want = strings.Replace(c.want, `"}`, `","denial":"`+id+`"}`, 1)
				if got := w.Body.String(); got != c.want || len(id) != 16 {
					t.Errorf("id %q, body:\ngot  %swant %s", id, got, c.want)
				}
				wantFields(t, w.Header(), "Content-Type: "+c.contentType, "Retry-After: 60", "Cache-Control: no-store",
					"X-Content-Type-Options: nosniff", "X-RateLimit-Remaining: 0")
				length := w.Header().Get("Content-Length")
				if c.method != "HEAD" && length != strconv.Itoa(len(c.want)) || length == "" || length == "0" {
					t.Errorf("Content-Length: got %s for %d bytes", length, len(c.want))
				}
			})
		})
	}
}

// The contact is the denying policy's, else the tier's, else that for all, and nothing in it ends
// the text it is in.
func TestContact(t *testing.T) {
	const text = `
headers: {retry_after_jitter: 0%}
contact: mailto:help@example.com
tiers:
  - {name: pro, match: {header: {X-Plan: pro}}, identity: everyone, limits: 0/1m, contact: 'Ask "Ann" \ & <Böb> "'}
  - {name: free, identity: everyone, limits: 9/1m}
policies:
  - {name: export, match: {path: /export}, limits: {free: 0/1m}, contact: "https://example.com/more?a=1&b=2"}
  - {name: search, match: {path: /search}, limits: {free: 0/1m}}`
	h := httplimit.New(guardOf(t, text), httplimit.WithDenied(
		func(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
			w.Header().Set("X-Contact", d.Contact)
			d.Answer(w, r)
		}))(ok)
	const mail, url, ann = "mailto:help@example.com", "https://example.com/more?a=1&b=2", `Ask "Ann" \ & <Böb> "`
	never := "This request is more than its limit will ever allow. Waiting does not help."
	for _, c := range []struct{ path, plan, contact, typ, detail string }{
		{"/export", "", url, url, never},
		{"/search", "", mail, problems + "quota-exceeded", never + " " + mail},
		{"/", "pro", ann, problems + "quota-exceeded", never + " " + ann},
	} {
		w := ask(h, c.path, "X-Plan: "+c.plan)
		if got := bodyOf(t, w); got.Contact != c.contact || got.Message != never {
			t.Errorf("%s: got %+v, want %q", c.path, got, c.contact)
		}
		wantFields(t, w.Header(), "X-Contact: "+c.contact)
		w = ask(h, c.path, "X-Plan: "+c.plan, "Accept: application/problem+json")
		if got := bodyOf(t, w); got.Contact != c.contact || got.Type != c.typ || got.Detail != c.detail {
			t.Errorf("%s: got %+v, want %q of the type %q", c.path, got, c.detail, c.typ)
		}
		w = ask(h, c.path, "X-Plan: "+c.plan, "Accept: text/plain")
		if got, want := w.Body.String(), never+"\nContact: "+c.contact+"\n"; got != want {
			t.Errorf("%s: got %q, want %q", c.path, got, want)
		}
	}
}

// All limits that denied are violated, and those alone.
func TestProblemNamesAllThatDenied(t *testing.T) {
	bubble(t, `
tiers: [{name: free, identity: everyone, limits: [2/1m, 2/1h, 5/1d]}]
policies: [{name: search, match: {path: /search}, limits: 1/1m}]`, func(t *testing.T, h http.Handler) {
		ask(h, "/search")
		ask(h, "/")
		got := bodyOf(t, ask(h, "/search", "Accept: application/problem+json"))
		want := []string{"free-1m", "free-1h", "search-1m"}
		if !reflect.DeepEqual(got.Violated, want) || got.Policy != "free" {
			t.Errorf("got %v, policy %q; want %v, policy free", got.Violated, got.Policy, want)
		}
	})
}

func TestErrors(t *testing.T) {
	const text = "failure: {mode: error}\ntiers: [{name: free, identity: everyone, limits: 10/1m}]"
	noKey := func(*http.Request) string { return "" }
	tooLong := func(*http.Request) string { return strings.Repeat("k", stint.MaxSubject+1) }
	by := func(key httplimit.KeyFunc) func(...httplimit.Option) http.Handler {
		return func(own ...httplimit.Option) http.Handler {
			options := []httplimit.ByOption{stint.PerMinute(10), httplimit.WithStore(failing),
				stint.WithLogger(discard)}
			for _, o := range own {
				options = append(options, o)
			}
			return httplimit.By(key, options...)(ok)
		}
	}
	for _, c := range []struct {
		what   string
		handle func(...httplimit.Option) http.Handler
		status int
		word   string
	}{
		{"guard", func(o ...httplimit.Option) http.Handler {
			options := make([]httplimit.GuardOption, len(o))
			for i := range o {
				options[i] = o[i]
			}
			return httplimit.New(guardOver(t, failing, text), options...)(ok)
		}, 503, "unavailable"},
		{"limiter", by(httplimit.Everyone()), 503, "unavailable"},
		{"no key", by(noKey), 500, "internal"},
		{"key too long", by(tooLong), 500, "internal"},
	} {
		w := ask(c.handle(), "/")
		if got := bodyOf(t, w); w.Code != c.status || got.Error != c.word {
			t.Errorf("%s: got %d %+v, want %d %s", c.what, w.Code, got, c.status, c.word)
		}
		var given error
		w = ask(c.handle(httplimit.WithError(func(w http.ResponseWriter, _ *http.Request, err error) {
			given = err
			w.WriteHeader(http.StatusTeapot)
		})), "/")
		if w.Code != http.StatusTeapot || given == nil {
			t.Errorf("%s: got %d and %v, want the answer and the error of WithError", c.what, w.Code, given)
		}
		if !errors.Is(given, errStore) && !errors.Is(given, httplimit.ErrNoKey) &&
			!errors.As(given, new(*stint.InvalidError)) {
			t.Errorf("%s: got error %v", c.what, given)
		}
	}
}

// Silence would be taken for success, if it is not the client that went away.
func TestEndedContextIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	called := false
	h := httplimit.New(guardOf(t, one),
		httplimit.WithError(func(http.ResponseWriter, *http.Request, error) { called = true }))(ok)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request("GET", "/").WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || called {
		t.Errorf("got %d, WithError called: %v; want 503, false", w.Code, called)
	}
}

// TestWithoutTheStore: the failure mode decides. A local limit that denies is a limit like any other, a request that
// is allowed in any case has no fields about limits, and one that is refused is not the client's fault.
func TestWithoutTheStore(t *testing.T) {
	away := resilience.Config{Instances: 1}
	unknown := []string{"X-RateLimit-Limit:", "X-RateLimit-Remaining:", "X-RateLimit-Reset:", "RateLimit:", "RateLimit-Policy:"}
	for _, c := range []struct {
		mode   stint.FailureMode
		limit  stint.Limit
		codes  []int
		fields []string
	}{
		{stint.FailLocal, stint.PerHour(1), []int{200, 429}, []string{"X-RateLimit-Remaining: 0"}},
		{stint.FailAllow, stint.PerHour(1), []int{200, 200}, unknown},
		{stint.FailAllow, stint.Concurrency(1, time.Minute), []int{200, 200, 200}, unknown},
		{stint.FailDeny, stint.PerHour(1), []int{503, 503}, append(unknown, "Retry-After: 1")},
	} {
		text := fmt.Sprintf("failure: {mode: %s}\ntiers: [{name: free, identity: everyone, limits: %s}]", c.mode, c.limit)
		shown := httplimit.WithHeaders(policy.Headers{Draft11: true})
		for name, h := range map[string]http.Handler{
			"New": httplimit.New(guardOver(t, guardtest.Stack(t, failing, away), text), shown)(ok),
			"By": httplimit.By(httplimit.Everyone(), c.limit, shown, httplimit.WithStore(guardtest.Stack(t, failing, away)),
				stint.WithFailure(stint.FailurePolicy{Mode: c.mode}))(ok),
		} {
			for _, want := range c.codes {
				w := ask(h, "/")
				if w.Code != want {
					t.Errorf("%s, %s: got %d, want %d", name, c.mode, w.Code, want)
				}
				wantFields(t, w.Header(), append(c.fields, "X-RateLimit-Degraded: true")...)
				if n := len(w.Header()); c.mode == stint.FailAllow && n != 2 { // and the handler's Content-Type
					t.Errorf("%s: got %v, want no other fields about limits", name, w.Header())
				}
				if want != http.StatusServiceUnavailable {
					continue
				}
				if got := bodyOf(t, w); got.Error != "unavailable" || got.Message != tryAgain || got.RetryAfter != 1 {
					t.Errorf("%s: got %+v", name, got)
				}
				if got := bodyOf(t, ask(h, "/", "Accept: application/problem+json")).Type; got != problems+"temporary-reduced-capacity" {
					t.Errorf("%s: got the type %s", name, got)
				}
			}
		}
	}
}
