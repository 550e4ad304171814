package policy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// prompt is the body of a request.
type prompt string

func (p prompt) Body(int64) ([]byte, int64) { return []byte(p), int64(len(p)) }
func (p prompt) Digest() string             { return "" }

// An estimate is at most half of the smallest budget that counts the same and is enforced, and what
// counts requests is not changed by it. Budgets in shadow are settled as well.
func TestUsageEstimates(t *testing.T) {
	const text = `
tiers: [{name: all, identity: ip, limits: 10/1d, budget: [100000/1d, "output_tokens: 300/1d", "fees: 50/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, costs: {fees: 2}, usage: {preset: openai}}
  - {name: small, match: {path: /chat}, identity: everyone, budget: 400/1d}
  - {name: trial, match: {path: /chat}, identity: everyone, budget: 40/1d, shadow: true}
`
	for _, test := range []struct {
		name, body string
		want       []int64 // requests; tokens, output, fees; small; trial
		response   string
		used       []int64
	}{
		{"small", `{"max_tokens":10}  `, []int64{1, 15, 10, 2, 15, 15}, `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
			[]int64{1, 7, 4, 2, 7, 7}},
		{"large", `{"max_tokens":5000}`, []int64{1, 200, 150, 2, 200, 20}, `{"usage":{"prompt_tokens":3,"completion_tokens":600}}`,
			[]int64{1, 603, 600, 2, 603, 603}},
		{"says nothing", `{"max_tokens":5000}`, []int64{1, 200, 150, 2, 200, 20}, `{}`,
			[]int64{1, 5005, 5000, 2, 5005, 5005}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, err := memorystore.New(memorystore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			guard := guardOver(t, store, text, policy.GuardConfig{})
			var v policy.Verdict
			in := policy.Input{Method: "POST", Path: "/chat", Content: prompt(test.body)}
			if err := guard.Decide(t.Context(), &in, &v); err != nil || !v.Decision.Allowed {
				t.Fatal(err, v.Decision)
			}
			if got := used(t, store, &v); !slices.Equal(got, test.want) {
				t.Errorf("held %v, want %v", got, test.want)
			}
			finish, meter := guard.Follow(t.Context(), &v), v.Meter()
			meter.Begin(http.Header{})
			_, _ = meter.Write([]byte(test.response))
			finish(policy.Outcome{Status: 200})
			if got := used(t, store, &v); !slices.Equal(got, test.used) {
				t.Errorf("used %v, want %v", got, test.used)
			}
		})
	}
}

// used is what is used of all limits of a verdict.
func used(t *testing.T, store stint.Store, v *policy.Verdict) (all []int64) {
	t.Helper()
	for i := range v.Results {
		c := v.Results[i].Claim
		c.Cost, c.Costs = 1, nil
		d, err := store.Take(t.Context(), stint.Request{Claims: []stint.Claim{c}, Mode: stint.ModePeek})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range d.Usages() {
			all = append(all, u.Used)
		}
	}
	return all
}

// A request with two readings, of which one counts tokens, is charged at least its estimate: else
// a spelling of the path would give something back.
func TestUsageOfTwoReadings(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	guard := guardOver(t, store, `
tiers: [{name: all, identity: ip, budget: [100000/1d, "output_tokens: 100000/1d"]}]
policies: [{name: chat, match: {path: /chat}, usage: {preset: openai}}]
`, policy.GuardConfig{})
	for _, test := range []struct {
		name, path, raw string
		response        string
		want            []int64
	}{
		{"one reading, less", "/chat", "", `{"usage":{"prompt_tokens":1,"completion_tokens":4}}`, []int64{5, 4}},
		{"two readings, less", "/x/../chat", "/x/..%2fchat", `{"usage":{"prompt_tokens":1,"completion_tokens":4}}`,
			[]int64{5 + 1005, 4 + 1000}},
		{"two readings, more", "/x/../chat", "/x/..%2fchat", `{"usage":{"prompt_tokens":1,"completion_tokens":4000}}`,
			[]int64{5 + 1005 + 4001, 4 + 1000 + 4000}},
	} {
		var v policy.Verdict
		in := policy.Input{Method: "POST", Path: test.path, RawPath: test.raw, Content: prompt(`{"messages":"hello"}`)}
		if err := guard.Decide(t.Context(), &in, &v); err != nil || !v.Decision.Allowed {
			t.Fatal(err, v.Decision)
		}
		finish, meter := guard.Follow(t.Context(), &v), v.Meter()
		if finish == nil || meter == nil {
			t.Fatalf("%s: nothing is read", test.name)
		}
		meter.Begin(http.Header{})
		_, _ = meter.Write([]byte(test.response))
		finish(policy.Outcome{Status: 200})
		if got := used(t, store, &v); !slices.Equal(got, test.want) {
			t.Errorf("%s: used %v, want %v", test.name, got, test.want)
		}
	}
}
