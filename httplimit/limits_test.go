package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

// TestWithCost: a request is charged what it costs.
func TestWithCost(t *testing.T) {
	cost := func(r *http.Request) (n int64) {
		fmt.Sscan(r.Header.Get("X-Rows"), &n)
		return n
	}
	for _, options := range [][]httplimit.ByOption{
		{stint.PerHour(10)},
		{stint.PerHour(99), httplimit.AndBy("all", httplimit.Everyone(), stint.PerHour(10))},
	} {
		h := httplimit.ByIP(append(options, httplimit.WithCost(cost))...)(ok)
		for _, c := range []struct {
			rows, left string
			code       int
		}{{"4", "6", 200}, {"0", "6", 200}, {"7", "6", 429}, {"6", "0", 200}, {"11", "0", 429}, {"-1", "", 500}} {
			w := ask(h, "/", "X-Rows: "+c.rows)
			if left := w.Header().Get("X-RateLimit-Remaining"); w.Code != c.code || left != c.left {
				t.Errorf("%s rows: got %d with %q left, want %d with %q", c.rows, w.Code, left, c.code, c.left)
			}
		}
	}
}

// login posts a body from an address.
func login(h http.Handler, address, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
	r.RemoteAddr = address + ":1234"
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const form = "application/x-www-form-urlencoded"

// TestAndBy: an attempt is charged to its address and its account, or to neither, and the handler
// gets the body.
func TestAndBy(t *testing.T) {
	for _, shared := range []bool{false, true} {
		options := []httplimit.ByOption{stint.PerHour(4),
			httplimit.AndBy("account", httplimit.FormField("email"), stint.PerHour(2))}
		if shared {
			options = append(options, httplimit.WithStore(memory(t)))
		}
		h := httplimit.ByIP(options...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
		}))
		for i, c := range []struct {
			address, account, policy, left string
			code                           int
		}{
			{"192.0.2.1", "a", "account", "1", 200},
			{"192.0.2.2", " A ", "account", "0", 200}, // the same account
			{"192.0.2.1", "a", "account", "0", 429},
			{"192.0.2.1", "a", "account", "0", 429},
			{"192.0.2.1", "b", "account", "1", 200},
			{"192.0.2.1", "c", "default", "1", 200}, // its address was not charged for what was denied
			{"192.0.2.1", "d", "default", "0", 200},
			{"192.0.2.1", "e", "default", "0", 429},
			{"192.0.2.3", "e", "account", "1", 200}, // nor was the account
		} {
			body := "email=" + strings.ReplaceAll(c.account, " ", "+") + "&password=x"
			w := login(h, c.address, form, body)
			name, left := w.Header().Get("X-RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining")
			if w.Code != c.code || name != c.policy || left != c.left {
				t.Errorf("%d. %s as %s: got %d, %s of %s left; want %d, %s of %s", i+1, c.address, c.account,
					w.Code, left, name, c.code, c.left, c.policy)
			}
			if w.Code == http.StatusOK && w.Body.String() != body {
				t.Errorf("%d. the handler got %q, want %q", i+1, w.Body, body)
			}
		}
	}
}

// TestField: no body avoids the limit of an account by naming it in a way that only the application
// understands.
func TestField(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		what, kind, body string
		key              httplimit.KeyFunc
	}{
		{"another type", "multipart/form-data; boundary=x", "--x\r\n&email=decoy&", httplimit.FormField("email")},
		{"no type", "", "email=victim", httplimit.FormField("email")},
		{"twice", form, "email=decoy&email=victim", httplimit.FormField("email")},
		{"none", form, "user=victim", httplimit.FormField("email")},
		{"empty", form, "email=", httplimit.FormField("email")},
		{"broken", form, "email=decoy&x=%", httplimit.FormField("email")},
		{"too long", form, "email=victim&x=" + long, httplimit.FormField("email")},
		{"twice", "", `{"email":"decoy","email":"victim"}`, httplimit.JSONField("email")},
		{"twice but for case", "", `{"email":"decoy","EMAIL":"victim"}`, httplimit.JSONField("email")},
		{"inside", "", `{"x":{"email":"victim"}}`, httplimit.JSONField("email")},
		{"no text", "", `{"email":["victim"]}`, httplimit.JSONField("email")},
		{"no object", "", `["email","victim"]`, httplimit.JSONField("email")},
		{"broken", "", `{"email":"decoy","x`, httplimit.JSONField("email")},
		{"nothing", "", ``, httplimit.JSONField("email")},
		{"too long", "", `{"email":"victim","x":"` + long + `"}`, httplimit.JSONField("email")},
		{"in another case", form, "email=decoy&Email=victim", httplimit.FormField("email")},
		{"a fraction", "", `{"email":42.0}`, httplimit.JSONField("email")},
		{"an exponent", "", `{"email":4.2e1}`, httplimit.JSONField("email")},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		if got := c.key(r); got != "email:unknown" {
			t.Errorf("%s: %.40q: got %q, want the key of what cannot be told", c.what, c.body, got)
		}
		if body, err := io.ReadAll(r.Body); string(body) != c.body || err != nil {
			t.Errorf("%s: the handler gets %d bytes and %v, want all %d", c.what, len(body), err, len(c.body))
		}
	}
	for field, bodies := range map[string][]string{
		"email": {`{"email":"Ann"}`, ` {"x":{"email":"b"},"em\u0061il":" ann "} `, `{"EMAIL":"ann"} {"email":"b"}`},
		"id":    {`{"id":42}`, `{"id":"42"}`},
	} {
		keys := map[string]bool{}
		for _, body := range bodies {
			keys[httplimit.JSONField(field)(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))] = true
		}
		if len(keys) != 1 || keys[field+":unknown"] {
			t.Errorf("%q: got %v, want one key", bodies, keys)
		}
	}
}

// TestFieldElsewhere: no request has a field in its body for the key, and another value elsewhere
// that the application takes.
func TestFieldElsewhere(t *testing.T) {
	for _, c := range []struct{ what, method, target, header string }{
		{"in the query of a GET", http.MethodGet, "/?email=victim", "Accept: */*"},
		{"in the query of a DELETE", http.MethodDelete, "/?email=victim", "Accept: */*"},
		{"in the query of a POST", http.MethodPost, "/?email=victim", "Accept: */*"},
		{"in a broken query", http.MethodPost, "/?email=victim&;", "Accept: */*"},
		{"compressed", http.MethodPost, "/", "Content-Encoding: gzip"},
	} {
		r := httptest.NewRequest(c.method, c.target, strings.NewReader("x=\x1f\x8b&email=decoy&x="))
		r.Header.Set("Content-Type", form)
		name, value, _ := strings.Cut(c.header, ": ")
		r.Header.Set(name, value)
		if got := httplimit.FormField("email")(r); got != "email:unknown" {
			t.Errorf("%s: got %q, want the key of what cannot be told; FormValue has %q", c.what, got, r.FormValue("email"))
		}
	}
}

// TestFieldBroken: the handler hears of the error that ended a body.
func TestFieldBroken(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(`{"email":"a"`),
		http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("}")), 0)))
	if got := httplimit.JSONField("email")(r); got != "email:unknown" {
		t.Errorf("got %q", got)
	}
	if body, err := io.ReadAll(r.Body); err == nil || string(body) != `{"email":"a"` {
		t.Errorf("the handler gets %q and %v, want what arrived and the error", body, err)
	}
}

// TestNumbersFromClaims: responses show the limit with the number of the claim, and its name does
// not depend on it.
func TestNumbersFromClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.New(guardOf(t, `
headers: {format: [x, draft-11], reset: delta}
tiers:
  - {name: plan, identity: user, limits: [{limit: 2/1m burst 2x, claim: rpm, max: 5000}, 9000/1h]}
  - {name: rest, identity: ip, limits: 1/1m}
policies: [{name: "plan-1h", limits: 9/1h fixed}]`), httplimit.WithClaims(claimHeader))(ok)
		for range 2 { // the second time from what was kept
			wantFields(t, ask(h, "/", "X-user: a", "X-rpm: 3").Header(), "X-RateLimit-Limit: 3",
				"X-RateLimit-Burst: 6", `RateLimit-Policy: "plan-1m";q=6;w=60, "plan-1h";q=9000;w=3600, "plan-1h-1h-fixed";q=9;w=3600`)
		}
		for i := range 2000 { // more than are kept
			if w := ask(h, "/", "X-user: "+strconv.Itoa(i), "X-rpm: "+strconv.Itoa(1+i)); w.Code != http.StatusOK ||
				!strings.HasPrefix(w.Header().Get("RateLimit-Policy"), fmt.Sprintf(`"plan-1m";q=%d;w=60, `, 2+2*i)) {
				t.Fatalf("rpm %d: got %d, %v", 1+i, w.Code, w.Header())
			}
		}
		w := ask(h, "/", "X-user: a", "X-rpm: 1")
		wantFields(t, w.Header(), "X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Burst: 2")
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("a lower number: got %d, want what was used to count", w.Code)
		}
		wantFields(t, ask(h, "/", "X-user: b").Header(), "X-RateLimit-Limit: 2", "X-RateLimit-Burst: 4")
	})
}

// TestPartMistakes: wrong options are refused at start, each with what would be right and once.
func TestPartMistakes(t *testing.T) {
	const (
		noKey    = `the key is nil; want one such as ClientIP() or Header("X-API-Key"), or Everyone() to count all requests together`
		noLimit  = "no limit; want one such as stint.PerMinute(100)"
		noName   = "want a name of letters, digits and _-."
		noOption = "an option is nil; want a limit such as stint.PerMinute(100), or another option"
		second   = "duplicate name; want a different one for each count"
	)
	ip, limit := httplimit.ClientIP(), stint.PerMinute(1)
	some := func(*http.Request) []stint.Limit { return nil }
	store, noStore := httplimit.WithStore(memory(t)), httplimit.WithStore(nil)
	for _, c := range []struct {
		key     httplimit.KeyFunc
		options []httplimit.ByOption
		want    []string
	}{
		{ip, []httplimit.ByOption{limit, httplimit.AndBy("a", ip, limit)}, nil},
		{ip, []httplimit.ByOption{httplimit.WithLimits(some), store},
			[]string{"requests have limits of their own, and a shared store counts them under a name; want WithName"}},
		{ip, []httplimit.ByOption{limit, httplimit.AndBy("", ip, limit), httplimit.AndBy("b c", ip, limit),
			httplimit.AndBy("b c", ip, limit)},
			[]string{`AndBy(""): ` + noName, `AndBy("b c"): ` + noName, `AndBy("b c"): ` + noName}},
		{nil, []httplimit.ByOption{limit, httplimit.AndBy("a", nil, limit)}, []string{noKey, `AndBy("a"): ` + noKey}},
		{ip, []httplimit.ByOption{limit, httplimit.AndBy("a", ip)}, []string{`AndBy("a"): ` + noLimit}},
		{ip, []httplimit.ByOption{limit, httplimit.AndBy("a", ip, limit), httplimit.AndBy("a", ip, limit)},
			[]string{`AndBy("a"): ` + second}},
		{ip, []httplimit.ByOption{limit, noStore, httplimit.AndBy("a", ip, stint.PerMinute(-1), stint.PerHour(-1))},
			[]string{"the store is nil; want a store, such as one from stores.Open",
				`AndBy("a"): Limits[0] (-1/1m): a maximum of -1; want 0 to 9007199254740992`,
				`AndBy("a"): Limits[1] (-1/1h): a maximum of -1; want 0 to 9007199254740992`}},
		{ip, []httplimit.ByOption{limit, struct{ stint.Option }{}}, []string{noOption}},
		{ip, []httplimit.ByOption{limit, struct{ httplimit.Option }{}}, []string{noOption}},
	} {
		_, err := httplimit.NewBy(c.key, c.options...)
		var got []string
		if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
			got = strings.Split(invalid.Err.Error(), "\n")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
