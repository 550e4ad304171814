package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request without the network: what the API costs beside the handler that answers nothing.
func BenchmarkTake(b *testing.B) {
	const many = "tiers: [{name: all, identity: ip, limits: 9000000/1m}]\npolicies: [{name: search, match: {path: /search}, limits: 9000000/1m}]"
	s := serve(b, memory(b), many)
	nothing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	})
	for _, bench := range []struct {
		name, body string
		handler    http.Handler
	}{
		{"bare", `{"subject":"user:42","policy":"search"}`, nothing},
		{"name", `{"subject":"user:42","policy":"search"}`, s.handler},
		{"limits", `{"subject":"user:42","limits":["9000000/1m"]}`, s.handler},
		{"attributes", `{"method":"GET","path":"/search","peer":"203.0.113.9","headers":{"Accept":"*/*"}}`, s.handler},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(bench.body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				bench.handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
