package testkit

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Fetch sends a request with header fields ("Name: value"), and returns the response with its body
// read. The field Host sets the host, and fields without a value are not sent.
func Fetch(t testing.TB, client *http.Client, method, url, body string, fields ...string) (*http.Response, string) {
	t.Helper()
	r := Must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for _, field := range fields {
		switch name, value, _ := strings.Cut(field, ": "); {
		case name == "Host":
			r.Host = value
		case value != "":
			r.Header.Set(name, value)
		}
	}
	resp := Must(client.Do(r))(t)
	defer resp.Body.Close()
	return resp, string(Must(io.ReadAll(resp.Body))(t))
}
