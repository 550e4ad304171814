package httplimit_test

import (
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Two requests a minute from each address.
func ExampleByIP() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	handler := httplimit.ByIP(stint.PerMinute(2))(mux) // for http.ListenAndServe

	for range 3 {
		w := get(handler)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// Per user: a key is any func(*http.Request) string.
func ExampleBy() {
	userOf := func(r *http.Request) string {
		name, _, _ := r.BasicAuth() // from your authentication
		return "user:" + name
	}
	handler := httplimit.By(userOf, stint.PerMinute(1), stint.PerDay(1000))(hello)

	for _, name := range []string{"alice", "alice", "bob"} {
		fmt.Println(name, getAs(handler, name).Code)
	}
	// Output:
	// alice 200
	// alice 429
	// bob 200
}

// Each customer has its own limits, from your database.
func ExampleWithLimits() {
	plans := map[string]int64{"user:alice": 2} // a copy in memory
	userOf := func(r *http.Request) string {
		name, _, _ := r.BasicAuth()
		return "user:" + name
	}
	limitsOf := func(r *http.Request) []stint.Limit {
		if perMinute, ok := plans[userOf(r)]; ok {
			return []stint.Limit{stint.PerMinute(perMinute)}
		}
		return nil // the limit passed to By applies
	}
	handler := httplimit.By(userOf, stint.PerMinute(1), httplimit.WithLimits(limitsOf))(hello)

	for _, name := range []string{"alice", "alice", "alice", "bob", "bob"} {
		fmt.Println(name, getAs(handler, name).Code)
	}
	// Output:
	// alice 200
	// alice 200
	// alice 429
	// bob 200
	// bob 429
}

// A login is limited by address and by account: an attempt is charged to both, or to neither.
func ExampleAndBy() {
	login := httplimit.ByIP(stint.PerMinute(20),
		httplimit.AndBy("account", httplimit.FormField("email"), stint.Per(1, 15*time.Minute)))(hello)

	for _, account := range []string{"ann@example.com", "Ann@example.com", "bob@example.com"} {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("email="+account))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		login.ServeHTTP(w, r)
		fmt.Println(account, w.Code)
	}
	// Output:
	// ann@example.com 200
	// Ann@example.com 429
	// bob@example.com 200
}

// The error lists every mistake.
func ExampleNewBy() {
	_, err := httplimit.NewBy(nil, stint.PerMinute(-1))
	fmt.Println(err)
	// Output:
	// stint: invalid: the key is nil; want one such as ClientIP() or Header("X-API-Key"), or Everyone() to count all requests together
	// Limits[0] (-1/1m): a maximum of -1; want 0 to 9007199254740992
}

// Handlers with the same store share their counts. With Redis, opened by package stores, they also
// share them across processes.
func ExampleWithStore() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	one := httplimit.ByIP(stint.PerMinute(1), httplimit.WithStore(store))(hello)
	two := httplimit.ByIP(stint.PerMinute(1), httplimit.WithStore(store))(hello)
	fmt.Println(get(one).Code, get(two).Code)
	// Output:
	// 200 429
}

// A name keeps the counts in a store when the limits change. Other names have separate counts.
func ExampleWithName() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	before := httplimit.ByIP(stint.PerMinute(2), httplimit.WithStore(store), httplimit.WithName("api"))(hello)
	after := httplimit.ByIP(stint.PerMinute(3), httplimit.WithStore(store), httplimit.WithName("api"))(hello)
	login := httplimit.ByIP(stint.PerMinute(3), httplimit.WithStore(store), httplimit.WithName("login"))(hello)
	get(before)
	get(before)
	fmt.Println(get(before).Code)
	fmt.Println(get(after).Code, get(after).Code) // there is room for one more
	fmt.Println(get(login).Code)
	// Output:
	// 429
	// 200 429
	// 200
}

// Load balancers report the client in a header, which is used only if they are trusted.
func ExampleClientIP() {
	key := httplimit.ClientIP("192.0.2.0/24") // the network of the load balancers
	r := httptest.NewRequest("GET", "/", nil) // comes from 192.0.2.1
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	fmt.Println(key(r))
	fmt.Println(httplimit.ClientIP()(r)) // without trusted proxies, the header is ignored
	// Output:
	// ip:203.0.113.9
	// ip:192.0.2.1
}

// Callers with an API key are counted by it, all others by their address.
func ExampleFirstOf() {
	key := httplimit.FirstOf(httplimit.Header("X-API-Key"), httplimit.ClientIP())
	handler := httplimit.By(key, stint.PerMinute(1))(hello)
	fmt.Println(get(handler).Code, get(handler).Code, get(handler, "X-API-Key: secret").Code)
	// Output:
	// 200 429 200
}

// One count for all requests together, to protect a backend.
func ExampleEveryone() {
	handler := httplimit.By(httplimit.Everyone(), stint.PerSecond(1))(hello)
	fmt.Println(get(handler).Code, get(handler, "X-API-Key: another").Code)
	// Output:
	// 200 429
}

// Wrong: with an unverified header as the only key there is no limit, because a denied client can
// send another value. Put such a limit behind authentication, or beside one by address.
func ExampleHeader_wrong() {
	attack := func(h http.Handler) (admitted int) {
		for i := range 100 {
			if get(h, fmt.Sprint("X-API-Key: invented-", i)).Code == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	byKey := func() http.Handler { return httplimit.By(httplimit.Header("X-API-Key"), stint.PerMinute(1))(hello) }
	fmt.Println("wrong:", attack(byKey()))
	fmt.Println("right:", attack(httplimit.ByIP(stint.PerMinute(1))(byKey())))
	// Output:
	// wrong: 100
	// right: 1
}

// A custom answer. The header fields about limits and Retry-After are already set.
func ExampleWithDenied() {
	slowDown := httplimit.WithDenied(func(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
		http.Error(w, "The kettle is empty.", d.Status)
	})
	handler := httplimit.ByIP(stint.PerMinute(1), slowDown)(hello)
	get(handler)
	w := get(handler)
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 429 The kettle is empty.
}

// A handler reads the verdict on its request.
func ExampleFromContext() {
	handler := httplimit.ByIP(stint.PerMinute(10), httplimit.WithVerdict())(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if v, ok := httplimit.FromContext(r.Context()); ok {
				fmt.Fprintln(w, v.Decision.Remaining(), "requests left")
			}
		}))
	fmt.Print(get(handler).Body)
	// Output:
	// 9 requests left
}

// Rules by tier and route, from a configuration.
func ExampleNew() {
	conf, err := config.Parse("stint.yaml", []byte(`
tiers:
  - {name: member, identity: user, limits: [100/1m, 1000/1d]}
  - {name: anonymous, identity: ip, limits: 1/1m}
policies:
  - {name: assets, match: {path: /static/**}, skip: true}
headers: {retry_after_jitter: 0%}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	guard, _ := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
	handler := httplimit.New(guard)(hello) // WithClaims provides the signed-in user

	for _, path := range []string{"/", "/", "/static/logo.png"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body, _, _ := strings.Cut(strings.TrimSpace(w.Body.String()), `,"denial"`) // an id for "stint why"
		fmt.Println(path, w.Code, body)
	}
	// Output:
	// / 200 hello
	// / 429 {"error":"rate_limited","message":"Too many requests. Please slow down.","retry_after_seconds":60,"policy":"anonymous","tier":"anonymous"
	// /static/logo.png 200 hello
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// Members have the limits of their tier. Requests are authenticated before the middleware.
func ExampleWithClaims() {
	guard, stop := exampleGuard(
		policy.Tier{Name: "member", Identity: []string{"user"}, Limits: policy.Limits(stint.PerMinute(100))},
		policy.Tier{Name: "anonymous", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(1))})
	defer stop()
	handler := httplimit.New(guard, httplimit.WithClaims(func(r *http.Request, name string) string {
		if name != "user" {
			return ""
		}
		user, _, _ := r.BasicAuth() // from your authentication
		return user
	}))(hello)
	w := getAs(handler, "alice")
	fmt.Println(w.Header().Get("X-RateLimit-Tier"), w.Header().Get("X-RateLimit-Limit"))
	// Output:
	// member 100
}

// A program that decides on requests itself still answers as the middleware does.
func ExampleNewAnswer() {
	guard, stop := exampleGuard(
		policy.Tier{Name: "anyone", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(1))})
	defer stop()
	answer := httplimit.NewAnswer()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v policy.Verdict
		_ = guard.Decide(r.Context(), &policy.Input{Method: r.Method, Path: r.URL.Path}, &v)
		if !answer(w, r, &v) {
			fmt.Fprint(w, "hello")
		}
	})
	fmt.Println(get(handler).Code, get(handler).Code)
	// Output:
	// 200 429
}

// exampleGuard returns a guard with some tiers over a store in memory.
func exampleGuard(tiers ...policy.Tier) (guard *policy.Guard, stop func()) {
	set, err := policy.New(policy.Spec{Tiers: tiers})
	if err != nil {
		log.Fatal(err)
	}
	store, _ := memorystore.New(memorystore.Config{})
	guard, _ = policy.NewGuard(store, set, policy.GuardConfig{Logger: discard})
	return guard, func() { _ = store.Close() }
}

// getAs sends a request of a user to a handler.
func getAs(h http.Handler, user string) *httptest.ResponseRecorder {
	return get(h, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
}

// get sends a request with some header fields to a handler.
func get(h http.Handler, fields ...string) *httptest.ResponseRecorder { return ask(h, "/", fields...) }
