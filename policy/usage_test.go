package policy_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

// prompt is the body of a request.
type prompt string

func (p prompt) Body(int64) ([]byte, int64) { return []byte(p), int64(len(p)) }
func (p prompt) Digest() string             { return "" }

// ended begins a request, and ends it with a response.
func (w *world) ended(in policy.Input, response string) (v *policy.Verdict, held []int64) {
	w.t.Helper()
	v, end := w.begin(in)
	if !v.Decision.Allowed || v.Meter() == nil {
		w.t.Fatalf("%s: %+v, meter %v", in.Path, v.Decision, v.Meter())
	}
	held = w.used(v)
	v.Meter().Begin(http.Header{})
	_, _ = v.Meter().Write([]byte(response))
	end(policy.Outcome{Status: 200})
	return v, held
}

// TestUsageEstimates: an estimate is at most half of the smallest enforced budget that counts the
// same, and does not change counts of requests. Budgets in shadow are settled as well.
func TestUsageEstimates(t *testing.T) {
	for _, test := range []struct {
		body     string
		held     []int64 // requests; tokens, output, fees; small; trial
		response string
		used     []int64
	}{
		{`{"max_tokens":10}  `, []int64{1, 15, 10, 2, 15, 15},
			`{"usage":{"prompt_tokens":3,"completion_tokens":4}}`, []int64{1, 7, 4, 2, 7, 7}},
		{`{"max_tokens":5000}`, []int64{1, 200, 150, 2, 200, 20},
			`{"usage":{"prompt_tokens":3,"completion_tokens":600}}`, []int64{1, 603, 600, 2, 603, 603}},
		{`{"max_tokens":5000}`, []int64{1, 200, 150, 2, 200, 20}, `{}`, []int64{1, 5005, 5000, 2, 5005, 5005}},
	} {
		w := newWorld(t, `
tiers: [{name: all, identity: ip, limits: 10/1d, budget: [100000/1d, "output_tokens: 300/1d", "fees: 50/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, costs: {fees: 2}, usage: {preset: openai}}
  - {name: small, match: {path: /chat}, identity: everyone, budget: 400/1d}
  - {name: trial, match: {path: /chat}, identity: everyone, budget: 40/1d, shadow: true}
`)
		in := get("/chat")
		in.Content = prompt(test.body)
		v, held := w.ended(in, test.response)
		if used := w.used(v); !slices.Equal(held, test.held) || !slices.Equal(used, test.used) {
			t.Errorf("%s: held %v, used %v; want %v, %v", test.body, held, used, test.held, test.used)
		}
	}
}

// TestUsageOfTwoReadings: a request with two readings, of which one counts tokens, is charged at
// least its estimate. Otherwise a spelling of the path would give something back.
func TestUsageOfTwoReadings(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: all, identity: ip, budget: [100000/1d, "output_tokens: 100000/1d"]}]
policies: [{name: chat, match: {path: /chat}, usage: {preset: openai}}]
`)
	for _, test := range []struct {
		target string
		output int
		want   []int64
	}{
		{"/chat", 4, []int64{5, 4}},
		{"/x/..%2fchat", 4, []int64{5 + 1005, 4 + 1000}},
		{"/x/..%2fchat", 4000, []int64{5 + 1005 + 4001, 4 + 1000 + 4000}},
	} {
		in := request(t, "POST", test.target, nil)
		in.Content = prompt(`{"messages":"hello"}`)
		v, _ := w.ended(in, fmt.Sprintf(`{"usage":{"prompt_tokens":1,"completion_tokens":%d}}`, test.output))
		if got := w.used(v); !slices.Equal(got, test.want) {
			t.Errorf("%+v: used %v", test, got)
		}
	}
}

// streamRules estimate 100 tokens for each request, and 50 under the smaller budget.
const streamRules = `
request_id: {header: X-Request-Id}
tiers: [{name: all, identity: ip, limits: 100/1d, budget: [1000/1d, "output_tokens: 100/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, hold: 5m, usage: {preset: gemini, default_output: 100}}
  - {name: claude, match: {path: /claude}, hold: 5m, usage: {preset: anthropic, default_output: 100}}
`

// gemini is a response that reports its usage.
func gemini(input, output int) string {
	return fmt.Sprintf(`{"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d}}`, input, output)
}

// TestReports: the usage of a stream is charged while it lasts, as far as the stream reports it or
// its events count: soon if it exceeds the estimate, else with a heartbeat. It is charged also if
// the process dies.
func TestReports(t *testing.T) {
	said := func(input, output int) string { return "data: " + gemini(input, output) + "\n\n" }
	events := func(n int) string { return strings.Repeat("data: {\"type\":\"x\"}\n\n", n) }
	type step struct {
		wait   time.Duration
		stream string
		want   []int64 // requests, tokens and output, held ones included
	}
	for _, test := range []struct {
		name, path string
		steps      []step
		dead       []int64 // used when the hold has passed without an end
		end        []int64 // used after the end
	}{
		{"below the estimate", "/chat", []step{
			{time.Second, said(3, 10), []int64{1, 100, 50}},
			{30 * time.Second, "", []int64{1, 100, 50}},
			{100 * time.Second, said(3, 20), []int64{1, 100, 50}},
			{100 * time.Second, "", []int64{1, 100, 50}},
		}, []int64{0, 23, 20}, []int64{1, 23, 20}},
		{"above the estimate of one budget", "/chat", []step{
			{time.Second, said(3, 60), []int64{1, 100, 50}},
			{15 * time.Second, said(3, 90), []int64{1, 100, 60}},
			{10 * time.Second, said(3, 130), []int64{1, 100, 90}},
			{10 * time.Second, "", []int64{1, 133, 130}},
		}, []int64{0, 133, 130}, []int64{1, 133, 130}},
		{"events that say nothing", "/claude", []step{
			{time.Second, events(150), []int64{1, 100, 50}},
			{10 * time.Second, events(50), []int64{1, 134, 134}},
			{10 * time.Second, "", []int64{1, 184, 184}},
		}, []int64{0, 184, 184}, []int64{1, 184, 184}},
	} {
		for _, dies := range []bool{false, true} {
			testkit.InBubble(t, fmt.Sprint(test.name, ", dies: ", dies), func(t *testing.T) {
				process := &mortal{Store: guardtest.Memory(t), err: errors.New("the process is dead")}
				w := worldOver(t, process, streamRules)
				v, end := w.begin(get(test.path))
				meter := v.Meter()
				meter.Begin(http.Header{"Content-Type": {"text/event-stream"}})
				for i, s := range test.steps {
					time.Sleep(s.wait)
					synctest.Wait()
					if got := w.used(v); !slices.Equal(got, s.want) {
						t.Fatalf("step %d: used %v, want %v", i, got, s.want)
					}
					_, _ = meter.Write([]byte(s.stream))
				}
				want := test.end
				if dies {
					process.dead.Store(true)
					time.Sleep(11 * time.Minute)
					want = test.dead
				}
				end(policy.Outcome{Status: 200})
				if got := w.used(v); !slices.Equal(got, want) {
					t.Errorf("used %v, want %v", got, want)
				}
			})
		}
	}
}

// TestReportsOfRepeats: the usage of a repeat is charged if the first request cannot settle any
// more. It never lowers what the first one settles.
func TestReportsOfRepeats(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, repeat string // what the responses say; "" dies
		status        int    // of the repeat
		want          []int64
	}{
		{"the first dies", "", gemini(3, 70), 200, []int64{0, 73, 70}},
		{"the first dies, and the repeat is small", "", gemini(3, 7), 200, []int64{0, 10, 7}},
		{"the first dies, and the repeat fails", "", `{}`, 500, []int64{0, 0, 0}},
		{"the repeat is smaller", gemini(3, 70), gemini(3, 1), 200, []int64{1, 73, 70}},
		{"the repeat fails", gemini(3, 70), `{}`, 400, []int64{1, 73, 70}},
	} {
		testkit.InBubble(t, test.name, func(t *testing.T) {
			store := guardtest.Memory(t)
			process := &mortal{Store: store, err: errors.New("the process is dead")}
			in := getWith("/chat", http.Header{"X-Request-Id": {"r"}})
			w := worldOver(t, process, streamRules)
			v, end := w.begin(in)
			repeat, endRepeat := worldOver(t, store, streamRules).begin(in)
			if v.Decision.Repeat || !repeat.Decision.Repeat {
				t.Fatalf("%+v", repeat.Decision)
			}
			v.Meter().Begin(http.Header{})
			repeat.Meter().Begin(http.Header{})
			process.dead.Store(test.first == "")
			_, _ = repeat.Meter().Write([]byte(test.repeat))
			time.Sleep(7 * time.Minute) // the hold is kept open by the repeat
			endRepeat(policy.Outcome{Status: test.status})
			_, _ = v.Meter().Write([]byte(test.first))
			end(policy.Outcome{Status: 200})
			time.Sleep(11 * time.Minute)
			if got := w.used(v); !slices.Equal(got, test.want) {
				t.Errorf("used %v, want %v", got, test.want)
			}
		})
	}
}
