package envoyrls_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

// empty is a request of empty descriptors, the first of which has so many empty entries.
func empty(descriptors, entries int) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: "shop"}
	for range descriptors {
		r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{})
	}
	for range entries {
		r.Descriptors[0].Entries = append(r.Descriptors[0].Entries, &commonv3.RateLimitDescriptor_Entry{})
	}
	return r
}

// TestF31Descriptors: a request has a bounded number of descriptors, whether they have limits or
// not, and of entries. One that has many more is refused before it is decoded.
func TestF31Descriptors(t *testing.T) {
	service := newService(t, guardtest.Memory(t), parse(t, shop), envoyrls.Options{})
	client := serve(t, service)
	full := empty(256, 4096)
	for i := range full.Descriptors {
		bring(i, 1, 1, own(i, 1, full))
	}
	for _, within := range []*rlsv3.RateLimitRequest{many(256, ""), full} {
		got, err := client.ShouldRateLimit(t.Context(), within)
		if err != nil || len(got.GetStatuses()) != 256 {
			t.Errorf("got %d statuses and %v, want 256", len(got.GetStatuses()), err)
		}
	}
	for _, test := range []struct {
		name    string
		request *rlsv3.RateLimitRequest
		want    string
	}{
		{"descriptors", many(256, "colour=red"), "stint: 257 descriptors in one request; want at most 256"},
		{"entries", empty(1, 4097), "stint: 4097 entries in the descriptors of one request; want at most 4096"},
		{"too many descriptors to decode", empty(100_000, 0),
			"stint: too many descriptors and entries in one request; want at most 256 descriptors with 4096 entries in all"},
		{"too many entries to decode", empty(1, 50_000),
			"stint: too many descriptors and entries in one request; want at most 256 descriptors with 4096 entries in all"},
	} {
		_, err := client.ShouldRateLimit(t.Context(), test.request)
		if got := status.Convert(err); got.Code() != codes.InvalidArgument || got.Message() != test.want {
			t.Errorf("%s: got %v; want %v: %s", test.name, err, codes.InvalidArgument, test.want)
		}
	}
}

// TestF31UndecodedJSON: a body of empty descriptors costs little more than to read it.
func TestF31UndecodedJSON(t *testing.T) {
	handler := newService(t, guardtest.Memory(t), parse(t, shop), envoyrls.Options{}).JSONHandler()
	body := `{"domain": "shop", "descriptors": [` + strings.Repeat("{},", 80_000) + `{}]}`
	if got := testing.AllocsPerRun(1, func() { handler.ServeHTTP(httptest.NewRecorder(), post(t, body)) }); got > 1000 {
		t.Errorf("%.0f allocations; want that it is not decoded", got)
	}
}

// TestNegativeHitsRefused: where nobody has to show who they are, nobody gives hits back, and what
// is asked for beside that is not charged.
func TestNegativeHitsRefused(t *testing.T) {
	for _, window := range windows {
		var log bytes.Buffer
		service := envoyrls.NewService(guardtest.Memory(t), parse(t, hundredADay), envoyrls.Options{
			Window: window, Public: true, Logger: textLogger(&log),
		})
		decide(t, service, hits(60, ask("d", "k=1")))
		for _, r := range []*rlsv3.RateLimitRequest{own(0, -50, ask("d", "k=1")), own(1, -50, ask("d", "k=1", "k=1"))} {
			_, err := service.ShouldRateLimit(t.Context(), r)
			if got := status.Convert(err); got.Code() != codes.PermissionDenied ||
				!strings.Contains(got.Message(), "--envoy-token-file") {
				t.Errorf("%v: got %v; want %v and what would be right", window, err, codes.PermissionDenied)
			}
		}
		w := httptest.NewRecorder()
		service.JSONHandler().ServeHTTP(w, post(t,
			`{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "1"}], "hitsAddend": "50", "isNegativeHits": true}]}`))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "descriptors[0].is_negative_hits") {
			t.Errorf("%v: got %d %s; want 403 and what is wrong", window, w.Code, w.Body)
		}
		if got, want := show(decide(t, service, own(0, 0, ask("d", "k=1")))), "OK: OK 40 of 100/DAY"; got != want {
			t.Errorf("%v: after all that got %s, want %s", window, got, want)
		}
		if got := strings.Count(log.String(), "refused negative hits"); got != 1 {
			t.Errorf("%v: logged %d times, want once: %s", window, got, &log)
		}
	}
}

// post is a request with JSON, whatever is in it.
func post(t *testing.T, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/json", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestJSON(t *testing.T) {
	handler := newService(t, guardtest.Memory(t), parse(t, shop), envoyrls.Options{}).JSONHandler()
	down := newService(t, gone, parse(t, shop), envoyrls.Options{}).JSONHandler()
	const buy = `{"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/buy"}]}]}`
	tests := []struct {
		name    string
		handler http.Handler
		body    string
		status  int
		want    string // of an answer, or a part of the text
	}{
		{"allowed", handler, buy, 200, "OK: OK 0 of 1/HOUR as buying"},
		{"denied", handler, buy, 429, "OVER: OVER 0 of 1/HOUR as buying"},
		{"unmatched", handler, `{"domain": "bank", "descriptors": [{}]}`, 200, "OK: OK"},
		{"empty", handler, ``, 400, "not a RateLimitRequest"},
		{"unknown field", handler, `{"realm": "shop"}`, 400, `not a RateLimitRequest: (line 1:2): unknown field "realm"`},
		{"no domain", handler, `{}`, 400, "domain must not be empty"},
		{"too large", handler, `{"domain": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "256 KiB"},
		{"empty descriptors", handler, `{"domain": "shop", "descriptors": [` + strings.Repeat("{},", 50_000) +
			`{}]}`, 400, "at most 256 descriptors"},
		{"store down", down, buy, 503, "the store cannot decide"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			test.handler.ServeHTTP(w, post(t, test.body))
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
			text := testkit.Must(protojson.Marshal(step.request))(f)
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, window := range windows {
			handler := newService(t, guardtest.Memory(t), parse(t, shop),
				envoyrls.Options{Window: window, Metadata: true}).JSONHandler()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, post(t, string(body)))
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
