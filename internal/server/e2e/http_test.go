package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/server"
)

// proxied returns the URL of a gateway with these policies, in front of a handler.
func proxied(t *testing.T, policies string, upstream http.Handler, adjust ...func(*server.Config)) string {
	t.Helper()
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	return start(t, policies, append(adjust, func(c *server.Config) {
		c.Gateway = &config.Gateway{Routes: []config.Route{{Upstream: behind.URL}}}
	})...).api
}

// fetch makes a request with header fields ("Name: value"), and returns the response with its body
// read.
func fetch(t *testing.T, method, url, body string, fields ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// served answers every request.
var served = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
