package envoyrls_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// post is a request with JSON, whatever is in it.
func post(t *testing.T, method, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/json", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestJSON(t *testing.T) {
	handler := newService(t, inMemory(t, nil), parse(t, shop), envoyrls.Options{}).JSONHandler()
	down := newService(t, gone{}, parse(t, shop), envoyrls.Options{}).JSONHandler()
	const buy = `{"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/buy"}]}]}`
	tests := []struct {
		name    string
		handler http.Handler
		method  string
		body    string
		status  int
		want    string // of an answer, or a part of the text
	}{
		{"allowed", handler, "POST", buy, 200, "OK: OK 0 of 1/HOUR as buying"},
		{"denied", handler, "POST", buy, 429, "OVER: OVER 0 of 1/HOUR as buying"},
		{"names with underscores", handler, "POST", `{"domain": "shop", "hits_addend": 2, "descriptors": [{"entries": [{"key": "path"}]}]}`, 200, "OK: OK 1 of 3/HOUR"},
		{"unmatched", handler, "POST", `{"domain": "bank", "descriptors": [{}]}`, 200, "OK: OK"},
		{"not JSON", handler, "POST", `{`, 400, "not a RateLimitRequest"},
		{"empty", handler, "POST", ``, 400, "not a RateLimitRequest"},
		{"unknown field", handler, "POST", `{"realm": "shop"}`, 400, `not a RateLimitRequest: (line 1:2): unknown field "realm"`},
		{"no domain", handler, "POST", `{}`, 400, "domain must not be empty"},
		{"no descriptors", handler, "POST", `{"domain": "shop"}`, 400, "descriptor list must not be empty"},
		{"too large", handler, "POST", `{"domain": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "256 KiB"},
		{"empty descriptors", handler, "POST", `{"domain": "shop", "descriptors": [` + strings.Repeat("{},", 50_000) +
			`{}]}`, 400, "at most 256 descriptors"},
		{"another method", handler, "GET", "", 405, "POST"},
		{"store down", down, "POST", buy, 503, "the store cannot decide"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			test.handler.ServeHTTP(w, post(t, test.method, test.body))
			if w.Code != test.status {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, test.status)
			}
			if test.status != 200 && test.status != 429 {
				if !strings.Contains(w.Body.String(), test.want) {
					t.Errorf("got %q; want it to tell %q", w.Body, test.want)
				}
				return
			}
			var response rlsv3.RateLimitResponse
			if err := protojson.Unmarshal(w.Body.Bytes(), &response); err != nil {
				t.Fatal(err)
			}
			if got := show(&response); got != test.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("got %s as %s, want %s as JSON", got, w.Header().Get("Content-Type"), test.want)
			}
		})
	}
}

// FuzzJSON: any body is answered with one of few statuses, and if it is a decision, each descriptor
// has a status that is not UNKNOWN.
func FuzzJSON(f *testing.F) {
	for _, s := range scenarios {
		for _, step := range s.steps {
			text, err := protojson.Marshal(step.request)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, window := range windows {
			handler := newService(t, inMemory(t, nil), parse(t, shop),
				envoyrls.Options{Window: window, Metadata: true}).JSONHandler()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, post(t, "POST", string(body)))
			switch w.Code {
			case 400:
				continue
			case 200, 429:
			default:
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			var request rlsv3.RateLimitRequest
			var response rlsv3.RateLimitResponse
			if err := protojson.Unmarshal(body, &request); err != nil {
				t.Fatal(err)
			}
			if err := protojson.Unmarshal(w.Body.Bytes(), &response); err != nil {
				t.Fatal(err)
			}
			if got, want := len(response.GetStatuses()), len(request.GetDescriptors()); got != want {
				t.Errorf("%d statuses, want %d", got, want)
			}
			for _, s := range response.GetStatuses() {
				if s.GetCode() == rlsv3.RateLimitResponse_UNKNOWN {
					t.Errorf("a status is UNKNOWN: %v", &response)
				}
			}
		}
	})
}
