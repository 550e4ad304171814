// Command llm puts token limits in front of a language model that streams: per key, per user, per
// team and, in dollars per month, per organization. The model and its callers are parts of this
// program.
//
//	go run ./examples/llm
//
// Each caller streams stories until it is denied, and the output names the limit that denied it.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/llm/model"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	upstream := httptest.NewServer(model.New(0))
	defer upstream.Close()
	gateway, err := newGateway(upstream.URL)
	if err != nil {
		return err
	}
	front := httptest.NewServer(gateway)
	defer front.Close()
	for _, caller := range []model.Caller{
		{Org: "acme", Team: "search", User: "ann", Key: "key-1"},
		{Org: "acme", Team: "search", User: "ann", Key: "key-2"},
		{Org: "acme", Team: "search", User: "bob", Key: "key-3"},
		{Org: "acme", Team: "ads", User: "cid", Key: "key-4"},
		{Org: "acme", Team: "ads", User: "dan", Key: "key-5"},
	} {
		for calls := 0; ; calls++ {
			got, err := caller.Ask(ctx, front.Client(), front.URL, 1000)
			if err != nil {
				return err
			}
			if got.Status == http.StatusTooManyRequests {
				fmt.Printf("%s of %s with %s: %d stories, then denied by the limit of the %s for %s s\n",
					caller.User, caller.Team, caller.Key, calls, got.Policy, got.Retry)
				break
			}
		}
	}
	return nil
}

// newGateway returns a proxy with limits. In production, use the command stint gateway with the
// same configuration and Redis.
func newGateway(upstream string) (http.Handler, error) {
	conf, err := config.Parse("stint.yaml", model.YAML)
	if err != nil {
		return nil, err
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return nil, err
	}
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return httplimit.New(guard)(proxy), nil
}
