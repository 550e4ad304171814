package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Middleware by a configuration, in front of a whole server. Routers such as chi and gorilla take
// it in their Use, echo in a wrapper of its own; gin has none, and goes behind it as any handler
// does.
func ExampleNew() {
	conf, err := config.Parse("stint.yaml", []byte(`
tiers:
  - {name: member, identity: user, limits: [2/1m, 1000/1d]}
  - {name: anonymous, identity: ip, limits: 1/1m}
policies:
  - {name: assets, match: {path: /static/**}, skip: true}
headers: {retry_after_jitter: 0%}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		fmt.Println(err)
		return
	}

	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })
	limit := httplimit.New(guard, httplimit.WithClaims(func(r *http.Request, name string) string {
		if name == "user" {
			return signedInAs(r)
		}
		return ""
	}))
	server := httptest.NewServer(limit(mux))
	defer server.Close()

	for _, path := range []string{"/", "/", "/static/logo.png"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%s %d remaining=%q retry-after=%q\n%s", path, resp.StatusCode,
			resp.Header.Get("X-RateLimit-Remaining"), resp.Header.Get("Retry-After"), body)
	}
	// Output:
	// / 200 remaining="0" retry-after=""
	// hello
	// / 429 remaining="0" retry-after="60"
	// {"error":"rate_limited","message":"Too many requests. Please slow down.","retry_after_seconds":60,"policy":"anonymous","tier":"anonymous"}
	// /static/logo.png 200 remaining="" retry-after=""
	// hello
}

// signedInAs stands for the application's authentication.
func signedInAs(*http.Request) string { return "" }

// One handler with limits of its own: five attempts a minute from an address.
func ExampleLimit() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	lim, err := stint.New(store, stint.PerMinute(5))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := httplimit.ClientIP("10.0.0.0/8") // the load balancers' network
	if err != nil {
		fmt.Println(err)
		return
	}
	login := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

	mux := http.NewServeMux()
	mux.Handle("POST /login", httplimit.Limit(login, lim, key, httplimit.WithName("login")))

	for range 6 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Policy"))
	}
	// Output:
	// 200 4 login
	// 200 3 login
	// 200 2 login
	// 200 1 login
	// 200 0 login
	// 429 0 login
}

// A header that nobody has verified as the only identity limits nobody: whoever is denied writes
// another value. Put such a limit behind authentication, or beside one by [httplimit.ClientIP].
func Example_incorrectUse() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	lim, err := stint.New(store, stint.PerMinute(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := httplimit.ClientIP()
	if err != nil {
		fmt.Println(err)
		return
	}
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	invented := 0
	attack := func(h http.Handler) (admitted int) {
		for range 100 {
			invented++
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-API-Key", fmt.Sprint("invented-", invented))
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	wrong := httplimit.Limit(next, lim, httplimit.Header("X-API-Key"))
	fmt.Println("by an unverified header:", attack(wrong))
	right := httplimit.Limit(wrong, lim, key)
	fmt.Println("by address too:", attack(right))
	// Output:
	// by an unverified header: 100
	// by address too: 1
}
