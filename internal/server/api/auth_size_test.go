package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The header of an answer is small, no matter how many limits apply and how long their names are:
// nginx takes a large one for an outage.
func TestAuthHeaderSize(t *testing.T) {
	const most = 2 << 10
	long := func(name string, i int) string {
		return fmt.Sprintf("%s-%02d-%s", name, i, strings.Repeat("n", 60-len(name)))
	}
	limits := func(name string, max int) string {
		var list []string
		for i := range 16 {
			list = append(list, fmt.Sprintf("'%s: %d/1h burst 2x'", long(name, i), max))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	for _, format := range []string{"x", "draft-11", "[x, draft-11]"} {
		text := "headers: {format: " + format + "}\nclient_ip: {trusted_proxies: [10.0.0.0/8]}\n" +
			"tiers: [{name: " + long("tier", 0) + ", identity: ip, limits: " + limits("tier", 900_000_000_000_000) +
			"}]\npolicies:\n"
		for i := range 5 {
			text += fmt.Sprintf("  - {name: %s, match: {path: /login}, identity: ip, limits: %s}\n",
				long("policy", i), limits("policy", 1))
		}
		s := serve(t, memory(t), text)
		for _, want := range []int{200, 200, 403} {
			w := asked(s, http.MethodGet, "/auth?deny=403", proxy, "X-Forwarded-Method: POST",
				"X-Forwarded-Uri: /login", "X-Forwarded-Host: example.com", "X-Forwarded-For: 203.0.113.9")
			if w.Code != want {
				t.Fatalf("%s: got %d, want %d: %s", format, w.Code, want, w.Body)
			}
			var header bytes.Buffer
			if err := w.Header().Write(&header); err != nil {
				t.Fatal(err)
			}
			if header.Len() > most || header.Len() == 0 {
				t.Errorf("%s: %d: the header has %d bytes, want at most %d:\n%s", format, want, header.Len(), most, &header)
			}
		}
	}
}
