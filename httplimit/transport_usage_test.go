package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/outbound"
)

// A transport charges an estimate, and then what the response says, and passes every byte on.
func TestTransportUsage(t *testing.T) {
	const request = `{"max_tokens":100,"messages":"1234567890"}`
	const events = "data: {\"choices\":[]}\n\ndata: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":30}}\n\ndata: [DONE]\n\n"
	for _, test := range []struct {
		name    string
		answer  func(w http.ResponseWriter)
		closes  bool // the caller does, before the end
		want    int64
		reading string
	}{
		{"a stream", func(w http.ResponseWriter) { io.WriteString(w, events) }, false, 37, events},
		{"closed early", func(w http.ResponseWriter) { io.WriteString(w, events) }, true, 111, ""},
		{"an error", func(w http.ResponseWriter) { w.WriteHeader(400); io.WriteString(w, "no") }, false, 0, "no"},
		{"too many", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		}, false, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != request ||
					r.ContentLength != int64(len(request)) {
					t.Errorf("got %q, %d announced, %v", body, r.ContentLength, err)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				test.answer(w)
			}))
			defer remote.Close()
			tokens := stint.PerHour(10_000)
			tokens.Name = "tokens"
			apis, err := outbound.New(memory(t), []outbound.API{
				{Name: "model", Limits: []stint.Limit{tokens, stint.PerDay(100)}, Usage: "openai"}}, outbound.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer apis.Close()
			api, err := apis.API("model")
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: httplimit.NewTransport(api, nil)}
			resp, err := client.Post(remote.URL, "application/json", strings.NewReader(request))
			if err != nil {
				t.Fatal(err)
			}
			if d, err := api.Peek(t.Context()); err != nil || d.Banned {
				// A 429 pauses calls; what is used is seen all the same.
				if test.name != "too many" {
					t.Fatal(d, err)
				}
			} else if got := d.Usages()[0].Used; resp.StatusCode == 200 && got != 111 {
				t.Errorf("%d tokens are held, want 111", got)
			}
			if !test.closes {
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != test.reading {
					t.Errorf("read %q, %v", body, err)
				}
			}
			resp.Body.Close()
			d, err := api.Peek(t.Context())
			if got := fmt.Sprint(d.Usages()[0].Used, d.Usages()[1].Used, err); got != fmt.Sprint(test.want, 1, nil) {
				t.Errorf("used %s, want %d tokens and a call", got, test.want)
			}
		})
	}
}
