package dashboard

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
)

func TestNeedsAMonitor(t *testing.T) {
	_, err := New(t.Context(), Config{})
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
		t.Errorf("got %v, want an InvalidError", err)
	}
}

func refuseAll(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Refuse(w, 401, "unauthorized", "No.")
	})
}

// TestPageIsForEverybody: it holds no data, and asks for a token itself.
func TestPageIsForEverybody(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Protect = refuseAll })
	for path, want := range map[string]struct {
		status int
		media  string
	}{
		"/":                   {200, "text/html; charset=utf-8"},
		"/static/main.js":     {200, "text/javascript; charset=utf-8"},
		"/static/chart.js":    {200, "text/javascript; charset=utf-8"},
		"/static/icon.svg":    {200, "image/svg+xml"},
		"/static/":            {404, "application/json"},
		"/static/index.html":  {404, "application/json"},
		"/index.html":         {401, "application/json"},
		"/api/state":          {401, "application/json"},
		"/api/stream":         {401, "application/json"},
		"/api/":               {401, "application/json"},
		"/anything/of/others": {401, "application/json"},
	} {
		response, _ := r.call(http.MethodGet, path, "")
		if got := response.Header.Get("Content-Type"); response.StatusCode != want.status || got != want.media {
			t.Errorf("%s: got %d, %s; want %d, %s", path, response.StatusCode, got, want.status, want.media)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if got := response.Header.Get("Cache-Control"); response.StatusCode != 200 && got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
	}
}
