package dashboard

import (
	"errors"
	"net/http"
	"path"
	"regexp"
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
		"/static/chart.css":   {200, "text/css; charset=utf-8"},
		"/static/icon.svg":    {200, "image/svg+xml"},
		"/static/":            {404, "application/json"},
		"/static/index.html":  {404, "application/json"},
		"/static/views":       {404, "application/json"},
		"/static/nothing.js":  {404, "application/json"},
		"/index.html":         {401, "application/json"},
		"/api/state":          {401, "application/json"},
		"/api/stream":         {401, "application/json"},
		"/api/":               {401, "application/json"},
		"/api/nothing":        {401, "application/json"},
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

// TestPageIsKept: a browser that has a file learns that it is current.
func TestPageIsKept(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/static/main.js"} {
		response, body := r.call(http.MethodGet, path, "")
		etag := response.Header.Get("ETag")
		if etag == "" || body == "" || response.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: got %d bytes with %v", path, len(body), response.Header)
		}
		response, body = r.call(http.MethodGet, path, "", "If-None-Match: "+etag)
		if response.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s again: got %d, %d bytes", path, response.StatusCode, len(body))
		}
		response, _ = r.call(http.MethodGet, path, "", `If-None-Match: "of-another-version"`)
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s of another version: got %d", path, response.StatusCode)
		}
	}
}

// TestPageIsWhole: every file that another one names is there, and none is elsewhere.
func TestPageIsWhole(t *testing.T) {
	all, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	imports := regexp.MustCompile(`(?:from|import) "([^"]+)"`)
	links := regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	for name, file := range all {
		named, from := imports.FindAllSubmatch(file.body, -1), path.Dir(name)
		if path.Ext(name) == ".html" {
			named, from = links.FindAllSubmatch(file.body, -1), "/"
		}
		for _, n := range named {
			if _, ok := all[path.Join(from, string(n[1]))]; !ok {
				t.Errorf("%s names %s, which is not there", name, n[1])
			}
		}
	}
}
