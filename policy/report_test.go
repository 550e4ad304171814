package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// streamRules estimate 100 tokens for each request, and 50 under the smaller budget.
const streamRules = `
request_id: {header: X-Request-Id}
tiers: [{name: all, identity: ip, limits: 100/1d, budget: [1000/1d, "output_tokens: 100/1d"]}]
policies:
  - {name: chat, match: {path: /chat}, hold: 5m, usage: {preset: gemini, default_output: 100}}
  - {name: claude, match: {path: /claude}, hold: 5m, usage: {preset: anthropic, default_output: 100}}
`

// What a stream has used is charged while it lasts, as far as it says so or its events count: soon
// if it is more than the estimate, else with a heartbeat. It is charged also if the process dies.
func TestReports(t *testing.T) {
	said := func(input, output int) string {
		return fmt.Sprintf(`data: {"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d}}`+"\n\n", input, output)
	}
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
			t.Run(fmt.Sprint(test.name, ", dies: ", dies), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, err := memorystore.New(memorystore.Config{})
					if err != nil {
						t.Fatal(err)
					}
					defer store.Close()
					process := &mortal{Store: store}
					guard := guardOver(t, process, streamRules, policy.GuardConfig{})
					var v policy.Verdict
					in := policy.Input{Method: "POST", Path: test.path}
					if err := guard.Decide(t.Context(), &in, &v); err != nil || !v.Decision.Allowed {
						t.Fatal(err, v.Decision)
					}
					finish, meter := guard.Follow(t.Context(), &v), v.Meter()
					meter.Begin(http.Header{"Content-Type": {"text/event-stream"}})
					for i, s := range test.steps {
						time.Sleep(s.wait)
						synctest.Wait()
						if got := used(t, store, &v); !slices.Equal(got, s.want) {
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
					finish(policy.Outcome{Status: 200})
					if got := used(t, store, &v); !slices.Equal(got, want) {
						t.Errorf("used %v, want %v", got, want)
					}
				})
			})
		}
	}
}

// mortal is the store of a process that may die: then nothing of what it sends arrives.
type mortal struct {
	stint.Store
	dead atomic.Bool
}

func (m *mortal) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if m.dead.Load() {
		return stint.Amended{}, errors.New("the process is dead")
	}
	return m.Store.Amend(ctx, c, a)
}

// What the repeat of a request has used is charged if the first one cannot settle any more. It is
// no way to lower what the first one settles.
func TestReportsOfRepeats(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, repeat string // what the responses say; "" dies
		status        int    // of the repeat
		want          []int64
	}{
		{"the first dies", "", `{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":70}}`, 200, []int64{0, 73, 70}},
		{"the first dies, and the repeat is small", "", `{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":7}}`, 200,
			[]int64{0, 10, 7}},
		{"the first dies, and the repeat fails", "", `{}`, 500, []int64{0, 0, 0}},
		{"the repeat is smaller", `{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":70}}`,
			`{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}}`, 200, []int64{1, 73, 70}},
		{"the repeat fails", `{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":70}}`, `{}`, 400, []int64{1, 73, 70}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memorystore.New(memorystore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				first, other := &mortal{Store: store}, &mortal{Store: store}
				finish := make([]func(policy.Outcome), 2)
				var verdicts [2]policy.Verdict
				for i, process := range []*mortal{first, other} {
					guard, v := guardOver(t, process, streamRules, policy.GuardConfig{}), &verdicts[i]
					in := policy.Input{Method: "POST", Path: "/chat", Header: http.Header{"X-Request-Id": {"r"}}}
					if err := guard.Decide(t.Context(), &in, v); err != nil || !v.Decision.Allowed ||
						v.Decision.Repeat != (i == 1) {
						t.Fatal(err, v.Decision)
					}
					if finish[i] = guard.Follow(t.Context(), v); finish[i] == nil {
						t.Fatal("nothing follows")
					}
					v.Meter().Begin(http.Header{})
				}
				first.dead.Store(test.first == "")
				_, _ = verdicts[1].Meter().Write([]byte(test.repeat))
				time.Sleep(7 * time.Minute) // the hold is kept open by the repeat
				finish[1](policy.Outcome{Status: test.status})
				_, _ = verdicts[0].Meter().Write([]byte(test.first))
				finish[0](policy.Outcome{Status: 200})
				time.Sleep(11 * time.Minute)
				if got := used(t, store, &verdicts[0]); !slices.Equal(got, test.want) {
					t.Errorf("used %v, want %v", got, test.want)
				}
			})
		})
	}
}
