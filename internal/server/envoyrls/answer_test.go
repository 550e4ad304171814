package envoyrls_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
)

// clock is a clock that stands still until it is moved.
type clock struct{ micros atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.micros.Store(at.UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// newServiceAt returns a service whose store has the same clock.
func newServiceAt(t *testing.T, at *clock, rules string, o envoyrls.Options) *envoyrls.Service {
	t.Helper()
	o.Now = at.now
	return newService(t, guardtest.MemoryWith(t, memorystore.Config{Now: at.now}), parse(t, rules), o)
}

// noon is the beginning of a window of every unit up to a day's half.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// headers shows the header fields of an answer in one line.
func headers(r *rlsv3.RateLimitResponse) string {
	var all []string
	for _, h := range r.GetResponseHeadersToAdd() {
		all = append(all, h.GetKey()+": "+h.GetValue())
	}
	return strings.Join(all, ", ")
}

const timed = `
domain: d
descriptors:
  - {key: few, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: many, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: daily, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: roomy, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 100}}
  - {key: empty, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
`

// all is what headers shows of HeadersAll.
func all(limit, remaining, reset int, more string) string {
	return fmt.Sprintf("RateLimit-Limit: %d, RateLimit-Remaining: %d, RateLimit-Reset: %d, "+
		"X-RateLimit-Limit: %d, X-RateLimit-Remaining: %d, X-RateLimit-Reset: %d%s", limit, remaining, reset, limit, remaining, reset, more)
}

// TestHeaders holds the header fields of answers, at 12:00:10.25.
func TestHeaders(t *testing.T) {
	three := func(limit, remaining, reset int) string {
		return fmt.Sprintf("RateLimit-Limit: %d, RateLimit-Remaining: %d, RateLimit-Reset: %d", limit, remaining, reset)
	}
	upstream := envoyrls.Options{Window: envoyrls.Fixed, Headers: envoyrls.HeadersUpstream}
	tests := []struct {
		name     string
		options  envoyrls.Options
		before   []string // descriptors that are asked for first
		requests *rlsv3.RateLimitRequest
		want     string
	}{
		{"allowed", envoyrls.Options{}, nil, ask("d", "few=1"), all(2, 1, 60, "")},
		{"denied", envoyrls.Options{}, []string{"few=1", "few=1"}, ask("d", "few=1"),
			all(2, 0, 60, ", Retry-After: 60")},
		{"the least left", envoyrls.Options{}, nil, ask("d", "many=1", "few=1"), all(2, 1, 60, "")},
		{"never", envoyrls.Options{}, nil, ask("d", "zero=1"), all(0, 0, 60, "")},
		{"the first quota to have room", envoyrls.Options{}, []string{"daily=1", "quota=1"},
			ask("d", "daily=1", "quota=1"), all(1, 0, 86400, ", Retry-After: 3600")},
		{"a limit, and the first quota to have room", envoyrls.Options{},
			[]string{"few=1", "few=1", "daily=1", "quota=1"},
			ask("d", "few=1", "daily=1", "quota=1"), all(2, 0, 60, ", Retry-After: 3600")},
		{"a limit, beside quotas that let through", envoyrls.Options{}, []string{"few=1", "few=1", "daily=1"},
			ask("d", "few=1", "daily=1", "roomy=1"), all(2, 0, 60, ", Retry-After: 60")},
		{"quotas that never have room", envoyrls.Options{}, nil, ask("d", "empty=1", "empty=2"), all(0, 0, 86400, "")},
		{"fixed", envoyrls.Options{Window: envoyrls.Fixed}, nil, ask("d", "few=1"), ""},
		{"upstream's", upstream, nil, ask("d", "few=1"), three(2, 1, 50)},
		{"upstream's, denied", upstream, []string{"few=1", "few=1"}, ask("d", "few=1", "many=1"), three(2, 0, 50)},
		{"fixed, all", envoyrls.Options{Window: envoyrls.Fixed, Headers: envoyrls.HeadersAll},
			[]string{"few=1", "few=1"}, ask("d", "few=1"), all(2, 0, 50, ", Retry-After: 50")},
		{"renamed", envoyrls.Options{Headers: envoyrls.HeadersUpstream,
			HeaderNames: envoyrls.HeaderNames{Limit: "A-Limit", Reset: "A-Reset"}}, nil,
			ask("d", "few=1"), "A-Limit: 2, RateLimit-Remaining: 1, A-Reset: 60"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := newServiceAt(t, newClock(noon.Add(10250*time.Millisecond)), timed, test.options)
			for _, d := range test.before {
				decide(t, service, ask("d", d))
			}
			if got := headers(decide(t, service, test.requests)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestWindows moves the clock: when room comes back, and what is said about that.
func TestWindows(t *testing.T) {
	type moment struct {
		after time.Duration // the one before
		want  string
		reset int64
	}
	tests := []struct {
		window  envoyrls.Window
		moments []moment
	}{
		{envoyrls.Fixed, []moment{
			{0, "OK: OK 1 of 2/MINUTE", 60},
			{59 * time.Second, "OK: OK 0 of 2/MINUTE", 1},
			{900 * time.Millisecond, "OVER: OVER 0 of 2/MINUTE", 1},
			{100 * time.Millisecond, "OK: OK 1 of 2/MINUTE", 60},
			{30500 * time.Millisecond, "OK: OK 0 of 2/MINUTE", 30},
		}},
		{envoyrls.Sliding, []moment{
			{0, "OK: OK 1 of 2/MINUTE", 60},
			{59 * time.Second, "OK: OK 0 of 2/MINUTE", 60},
			{900 * time.Millisecond, "OVER: OVER 0 of 2/MINUTE", 60},
			{100 * time.Millisecond, "OK: OK 0 of 2/MINUTE", 60},
			{58 * time.Second, "OVER: OVER 0 of 2/MINUTE", 2},
		}},
	}
	for _, test := range tests {
		t.Run(test.window.String(), func(t *testing.T) {
			at := newClock(noon)
			service := newServiceAt(t, at, timed, envoyrls.Options{Window: test.window})
			for i, m := range test.moments {
				at.advance(m.after)
				response := decide(t, service, ask("d", "few=1"))
				if got := show(response); got != m.want {
					t.Errorf("moment %d: got %s, want %s", i, got, m.want)
				}
				if got := response.GetStatuses()[0].GetDurationUntilReset(); got.GetSeconds() != m.reset || got.GetNanos() != 0 {
					t.Errorf("moment %d: reset after %v, want %d s", i, got, m.reset)
				}
			}
		})
	}
}

// TestMetadata holds the dynamic metadata of answers.
func TestMetadata(t *testing.T) {
	config := parse(t, `
domain: d
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 1}
    metadata: {who: a, place: {x: 1, list: [true, ~, 2026-05-04, no, "no"]}}
  - key: b
    rate_limit: {unit: hour, requests_per_unit: 9}
    metadata: {who: b, place: {x: 2, y: 2.5}}
`)
	service := newService(t, guardtest.Memory(t), config, envoyrls.Options{Metadata: true, Headers: envoyrls.HeadersNone})
	tests := []struct {
		request *rlsv3.RateLimitRequest
		want    string
	}{
		{own(1, 2, hits(1, ask("d", "a=1", "b=1"))), `{"descriptors":[{"entries":["a=1"]},{"entries":["b=1"],"hitsAddend":2}],"domain":"d","hitsAddend":1,` +
			`"metadata":{"place":{"list":[true,null,"2026-05-04",false,"no"],"x":1,"y":2.5},"who":"a"}}`},
		{bring(1, 5, 3, ask("d", "b=1", "c=1,d=2")), `{"descriptors":[{"entries":["b=1"]},{"entries":["c=1","d=2"],"limit":"requests_per_unit:5 unit:HOUR"}],"domain":"d",` +
			`"metadata":{"place":{"x":2,"y":2.5},"who":"b"}}`},
		{ask("d", "a=1"), `{"descriptors":[{"entries":["a=1"]}],"domain":"d"}`},
		{bring(0, 0, 4, ask("d", "c=1")), `{"descriptors":[{"entries":["c=1"],"limit":"unit:DAY"}],"domain":"d"}`},
	}
	for i, test := range tests {
		text := testkit.Must(protojson.Marshal(decide(t, service, test.request).GetDynamicMetadata()))(t)
		if got := strings.ReplaceAll(strings.ReplaceAll(string(text), ", ", ","), `": `, `":`); got != test.want {
			t.Errorf("request %d: got %s\nwant %s", i, got, test.want)
		}
	}
}

// gather returns all counters of the stats, by name and labels.
func gather(t *testing.T, stats *envoyrls.Stats) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(stats)
	families := testkit.Must(registry.Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "ratelimit_service_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

// TestStats: hits are counted under the names of envoyproxy/ratelimit, near the limit above a share
// of it, and a changed configuration goes on counting.
func TestStats(t *testing.T) {
	const rules = `
domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, value: "10.0.0.1:80", rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
`
	stats := envoyrls.NewStats(0.8)
	service := newService(t, guardtest.Memory(t), parse(t, rules), envoyrls.Options{Window: envoyrls.Fixed, Stats: stats})
	question := ask("shop", "user=a,path=10.0.0.1:80", "shadow=x", "free=y", "unknown=z")
	for i := range 12 {
		if i == 6 {
			service.Swap(parse(t, rules))
		}
		decide(t, service, question)
	}
	stats.Configured(nil)
	stats.Configured(errors.New("refused"))
	got := gather(t, stats)
	const user, shadow = " domain=shop key1=user key2=path_10_0_0_1_80", " domain=shop key1=shadow key2="
	for name, want := range map[string]float64{
		"rate_limit_total_hits" + user: 12, "rate_limit_within_limit" + user: 10, "rate_limit_near_limit" + user: 2,
		"rate_limit_over_limit" + user: 2, "rate_limit_shadow_mode" + user: 0,
		"rate_limit_total_hits" + shadow: 12, "rate_limit_within_limit" + shadow: 1,
		"rate_limit_over_limit" + shadow: 11, "rate_limit_shadow_mode" + shadow: 11,
		"total_requests grpc_method=ShouldRateLimit":        12,
		"response_time_seconds grpc_method=ShouldRateLimit": 12,
		"should_rate_limit_error err_type=redis_error":      0,
		"config_load_success":                               1, "config_load_error": 1,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

// TestFixedAnswer holds an answer in fixed windows to the bit: nothing is in it that upstream's
// would not have.
func TestFixedAnswer(t *testing.T) {
	service := newServiceAt(t, newClock(noon.Add(10250*time.Millisecond)), timed, envoyrls.Options{Window: envoyrls.Fixed})
	few := &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 2, Unit: rlsv3.RateLimitResponse_RateLimit_MINUTE}
	many := &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 100, Unit: rlsv3.RateLimitResponse_RateLimit_HOUR}
	for i := range 4 {
		code, left := ok, uint32(1-i)
		if i > 1 {
			code, left = over, 0
		}
		want := &rlsv3.RateLimitResponse{OverallCode: code, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{
			{Code: code, CurrentLimit: few, LimitRemaining: left, DurationUntilReset: &durationpb.Duration{Seconds: 50}},
			{Code: ok},
			{Code: ok, CurrentLimit: many, LimitRemaining: uint32(99 - i),
				DurationUntilReset: &durationpb.Duration{Seconds: 3590}},
		}}
		if got := decide(t, service, ask("d", "few=1", "other=1", "many=1")); !proto.Equal(got, want) {
			t.Errorf("request %d: got %v\nwant %v", i, got, want)
		}
	}
}
