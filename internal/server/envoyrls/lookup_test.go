package envoyrls_test

import (
	"context"
	"sync"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

const lookupRules = `
domain: "a:b"
descriptors:
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: "odd=,%"
    rate_limit: {unit: second, requests_per_unit: 3}
    descriptors:
      - key: inner
        value: "x,y"
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: path
    value: "/files/*"
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: free
    rate_limit: {unlimited: true}
`

func TestLimitsOf(t *testing.T) {
	config := parse(t, lookupRules)
	for _, test := range []struct{ subject, rule, sliding, fixed string }{
		{"envoy:a%3ab:plain=v", "a:b.plain", "10/1m", "10/1m fixed"},
		{"envoy:a%3ab:plain=", "a:b.plain", "10/1m", "10/1m fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v", "a:b.odd=,%", "3/1s", "3/1s fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v,inner=x%2cy", "a:b.odd=,%.inner_x,y", "7/1h", "7/1h fixed"},
		{"envoy:a%3ab:path=/files/*", "a:b.path_/files/*", "5/1d", "5/1d fixed"},
		// What no counter is called.
		{"envoy:a%3ab:path=/files/1", "", "", ""},
		{"envoy:a%3ab:plain=v,more=w", "", "", ""},
		{"envoy:a%3ab:free=v", "", "", ""},
		{"envoy:a%3ab:plain", "", "", ""},
		{"envoy:a%3ab:plain=%zz", "", "", ""},
		{"envoy:a%zz:plain=v", "", "", ""},
		{"envoy:other:plain=v", "", "", ""},
		{"envoy:a:b:plain=v", "", "", ""},
		{"envoy:", "", "", ""},
		{"envoy#0123", "", "", ""},
		{"user:42", "", "", ""},
	} {
		for window, want := range map[envoyrls.Window]string{
			envoyrls.Sliding: test.sliding, envoyrls.Fixed: test.fixed} {
			rule, limits := config.LimitsOf(test.subject, window)
			got := ""
			if len(limits) == 1 {
				got = limits[0].String()
			}
			if rule != test.rule || got != want || len(limits) > 1 {
				t.Errorf("%s: got %q, %v; want %q, %q", test.subject, rule, limits, test.rule, want)
			}
		}
	}
}

// What a service counts is found by the name it is counted under.
func TestLimitsOfWhatIsCounted(t *testing.T) {
	config := parse(t, lookupRules)
	store := inMemory(t, nil)
	seen := &subjects{}
	c := serve(t, newService(t, watched{store, seen}, config, envoyrls.Options{}))
	for _, entries := range [][]string{
		{"plain", "%3d,="}, {"odd=,%", "=", "inner", "x,y"}, {"path", "/files/1"},
	} {
		d := &commonv3.RateLimitDescriptor{}
		for i := 0; i < len(entries); i += 2 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
		}
		must(t, c, &rlsv3.RateLimitRequest{Domain: "a:b", Descriptors: []*commonv3.RateLimitDescriptor{d}})
	}
	if len(seen.list) != 3 {
		t.Fatalf("%d were counted, want 3", len(seen.list))
	}
	for _, subject := range seen.list {
		if _, limits := config.LimitsOf(subject, envoyrls.Sliding); len(limits) != 1 {
			t.Errorf("%s has %d limits, want 1", subject, len(limits))
		}
	}
}

// watched is a store that notes whom it is asked about.
type watched struct {
	stint.Store
	seen *subjects
}

type subjects struct {
	mu   sync.Mutex
	list []string
}

func (w watched) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	w.seen.mu.Lock()
	w.seen.list = append(w.seen.list, r.Claims[0].Subject)
	w.seen.mu.Unlock()
	return w.Store.Take(ctx, r)
}
