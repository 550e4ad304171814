package envoyrls_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
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
	service := newService(t, inMemory(t, nil), parse(t, shop), envoyrls.Options{})
	client := serve(t, service)
	for _, within := range []*rlsv3.RateLimitRequest{many(256, ""), empty(256, 4096),
		bring(0, 1, 1, empty(256, 4096))} {
		if got := len(decide(t, service, within).GetStatuses()); got != 256 {
			t.Errorf("got %d statuses, want 256", got)
		}
	}
	for _, test := range []struct {
		name    string
		request *rlsv3.RateLimitRequest
		code    codes.Code
		want    string
	}{
		{"descriptors", many(256, "colour=red"), codes.InvalidArgument, "stint: 257 descriptors in one request; want at most 256"},
		{"entries", empty(1, 4097), codes.InvalidArgument, "stint: 4097 entries in the descriptors of one request; want at most 4096"},
		{"too many descriptors to decode", empty(100_000, 0), codes.Internal,
			"stint: too many descriptors and entries in one request; want at most 256 descriptors with 4096 entries in all"},
		{"too many entries to decode", empty(1, 50_000), codes.Internal,
			"stint: too many descriptors and entries in one request; want at most 256 descriptors with 4096 entries in all"},
	} {
		_, err := client.ShouldRateLimit(t.Context(), test.request)
		if got := status.Convert(err); got.Code() != test.code || !strings.HasSuffix(got.Message(), test.want) {
			t.Errorf("%s: got %v; want %v: %s", test.name, err, test.code, test.want)
		}
	}
}

// TestF31UndecodedJSON: a body of empty descriptors costs little more than to read it.
func TestF31UndecodedJSON(t *testing.T) {
	handler := newService(t, inMemory(t, nil), parse(t, shop), envoyrls.Options{}).JSONHandler()
	body := `{"domain": "shop", "descriptors": [` + strings.Repeat("{},", 80_000) + `{}]}`
	if got := testing.AllocsPerRun(
		1, func() { handler.ServeHTTP(httptest.NewRecorder(), post(t, "POST", body)) }); got > 1000 {
		t.Errorf("%.0f allocations; want that it is not decoded", got)
	}
}

// TestNegativeHitsRefused: where nobody has to show who they are, nobody gives hits back, and what
// is asked for beside that is not charged.
func TestNegativeHitsRefused(t *testing.T) {
	for _, window := range windows {
		var log bytes.Buffer
		service, err := envoyrls.NewService(inMemory(t, nil), parse(t, hundredADay), envoyrls.Options{
			Window: window, Public: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		decide(t, service, hits(60, ask("d", "k=1")))
		for _, r := range []*rlsv3.RateLimitRequest{own(0, -50, ask("d", "k=1")), own(1, -50, ask("d", "k=1", "k=1"))} {
			_, err := service.ShouldRateLimit(t.Context(), r)
			if got := status.Convert(err); got.Code() != codes.PermissionDenied ||
				!strings.Contains(got.Message(), "--envoy-token-file") {
				t.Errorf("%v: got %v; want %v and what would be right", window, err, codes.PermissionDenied)
			}
		}
		w := httptest.NewRecorder()
		service.JSONHandler().ServeHTTP(w, post(t, "POST",
			`{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "1"}], "hitsAddend": "50", "isNegativeHits": true}]}`))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "descriptors[0].is_negative_hits") {
			t.Errorf("%v: got %d %s; want 403 and what is wrong", window, w.Code, w.Body)
		}
		if got, want := show(decide(t, service, own(0, 0, ask("d", "k=1")))), "OK: OK 40 of 100/DAY"; got != want {
			t.Errorf("%v: after all that got %s, want %s", window, got, want)
		}
		if got := strings.Count(log.String(), "negative hits were refused"); got != 1 {
			t.Errorf("%v: logged %d times, want once: %s", window, got, &log)
		}
	}
}
