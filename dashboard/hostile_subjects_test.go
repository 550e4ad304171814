package dashboard

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// TestF34HostileSubjects: whatever a subject is named, answers are JSON on one line that no browser
// takes for a page, and so are lines of the log.
func TestF34HostileSubjects(t *testing.T) {
	for _, full := range []bool{false, true} {
		r := newRig(t, func(c *Config) { c.ShowSubjects = full })
		names := []string{
			"<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "a\nevent: tick\ndata: {}\n\n",
			"\x1b[2J\r\n{}", "\xff\xfe", `","ref":"x`, "\u2028\u202e",
		}
		for _, name := range names {
			for r.ask(name, "/trial") { // three are allowed, the second and the third thanks to shadow
			}
		}
		paths := []string{"/api/state", "/api/violations", "/api/top?by=user", "/api/bans", "/api/shadow",
			"/api/top?by=%3Cimg%3E%0A", "/api/violations?n=%3Cimg%3E"}
		for _, name := range names {
			ref := r.ref("user:" + name)
			paths = append(paths, "/api/subject?ref="+ref)
			if status, text := r.post("/api/ban", `{"ref": "`+ref+`", "for": "1h"}`); status != 200 {
				t.Fatalf("%q: got %d, %s", name, status, text)
			}
		}
		var violations struct{ Violations []observe.Violation }
		testkit.Eventually(t, "the violations are shown", func() bool {
			r.get("/api/violations", &violations)
			return len(violations.Violations) == 3*len(names)
		})
		for _, path := range paths {
			response, text := r.call(http.MethodGet, path, "")
			if response.Header.Get("Content-Type") != "application/json" ||
				response.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: got %v", path, response.Header)
			}
			if !json.Valid([]byte(text)) || strings.ContainsFunc(strings.TrimSuffix(text, "\n"), unicode.IsControl) {
				t.Errorf("%s: got %q", path, text)
			}
		}
		for line := range strings.Lines(r.log.String()) {
			if !json.Valid([]byte(line)) || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl) {
				t.Errorf("logged %q", line)
			}
		}

		// Nor does one end an event of a stream.
		tick := observe.Tick{Violations: violations.Violations}
		tick.Violations[0].Subject = names[2]
		w := &recorded{}
		if err := sendTick(w, &tick); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(w.String(), "\n"); n != 3 {
			t.Errorf("an event of %d lines: %q", n, w)
		}
	}
}

// recorded is what was written to a client.
type recorded struct{ strings.Builder }

func (*recorded) Header() http.Header { return http.Header{} }
func (*recorded) WriteHeader(int)     {}
func (*recorded) Flush()              {}
