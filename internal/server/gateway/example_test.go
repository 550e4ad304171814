package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/gateway"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Two services behind one gateway, one of which allows less.
func Example() {
	service := func(name string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s: %s for %s\n", name, r.URL.Path, r.Header.Get("X-Forwarded-For"))
		}))
	}
	shop, search := service("shop"), service("search")
	defer shop.Close()
	defer search.Close()

	conf, err := config.Parse("stint.yaml", []byte(`
tiers: [{name: anonymous, identity: ip, limits: 100/1m}]
policies: [{name: search, match: {path: /search/**}, limits: 1/1m}]
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
	g, err := gateway.New(guard, config.Gateway{
		Routes: []config.Route{
			{Upstream: shop.URL},
			{PathPrefix: "/search", Upstream: search.URL, StripPrefix: true},
		},
		Logger: discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	server := httptest.NewServer(g)
	defer server.Close()

	for _, path := range []string{"/basket", "/search/shoes", "/search/shoes"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), `,"denial"`) // an id for "stint why"
		fmt.Printf("%d remaining=%s retry-after=%q\n%s\n", resp.StatusCode, resp.Header.Get("X-RateLimit-Remaining"),
			resp.Header.Get("Retry-After"), text)
	}
	// Output:
	// 200 remaining=99 retry-after=""
	// shop: /basket for 127.0.0.1
	// 200 remaining=0 retry-after=""
	// search: /shoes for 127.0.0.1
	// 429 remaining=0 retry-after="60"
	// {"error":"rate_limited","message":"Too many requests. Please slow down.","retry_after_seconds":60,"policy":"search","tier":"anonymous"
}
