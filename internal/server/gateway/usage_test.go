package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

// model is a gateway in front of a model, and what its callers have used.
type model struct {
	*httptest.Server
	store  stint.Store
	guard  *policy.Guard
	unsaid atomic.Int64 // responses that did not say what was used
}

// Observe counts settlements by an estimate.
func (m *model) Observe(_ context.Context, event stint.Event) {
	if s, ok := event.(*policy.Settlement); ok && s.Estimated {
		m.unsaid.Add(1)
	}
}

// newModel serves a gateway, in HTTP/1 and HTTP/2, in front of an upstream.
func newModel(t testing.TB, text, upstream string) *model {
	t.Helper()
	m := &model{store: guardtest.Memory(t)}
	m.guard = guardtest.New(t, m.store, text, policy.GuardConfig{Observer: m})
	m.Server = testkit.ServeHTTP2(t, gatewayOver(t, m.guard, to(upstream)))
	return m
}

// used returns what this machine has used of the budgets of its tier, in their order.
func (m *model) used(t testing.TB) (used []int64) {
	t.Helper()
	for _, rule := range m.guard.Set().Rules() {
		if !rule.Costs || rule.Policy != "" {
			continue
		}
		d, err := m.store.Take(t.Context(), stint.Request{Mode: stint.ModePeek, Claims: []stint.Claim{
			{Subject: "ip:127.0.0.1", Scope: "global", Limits: rule.Limits, Cost: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range d.Usages() {
			used = append(used, u.Used)
		}
	}
	return used
}

// wantUsed waits until so much is used: a response that was cut off is settled after its end.
func (m *model) wantUsed(t testing.TB, want ...int64) {
	t.Helper()
	testkit.EventuallyNil(t, "the usage", func() error {
		if got := m.used(t); !slices.Equal(got, want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
}

// usageRules count tokens of any kind, of each kind, and prices.
func usageRules(usage string) string {
	return `
tiers: [{name: all, identity: ip, budget: [1000000/1d, "input_tokens: 1000000/1d", "output_tokens: 1000000/1h", "price: 1000000/month"]}]
policies:
  - name: chat
    match: {path: "/v1/**"}
    usage:
      prices: {m: {input: 2000000, output: 10000000, cached: 1000000}, default: {input: 1000000, output: 1000000}}
      ` + usage + "\n"
}

const (
	chatRequest = `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`
	chatBody    = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":8}}}`
	chatEvents  = `data: {"choices":[{"delta":{"content":"Hel"}}],"usage":null}

data: {"choices":[{"delta":{"content":"lo"}}]}

data: {"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":8}}}

data: [DONE]

`
	messageEvents = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":11,"cache_read_input_tokens":8,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"text":"Hello"}}

event: message_delta
data: {"type":"message_delta","usage":{"output_tokens":10}}

event: message_stop
data: {"type":"message_stop"}

`
)

// zipped compresses a text, in pieces that can be read as they come.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for line := range strings.Lines(text) {
		_, _ = io.WriteString(w, line)
		w.Flush()
	}
	w.Close()
	return b.String()
}

// Tokens are charged as the response names them, by any protocol, in any pieces, and every byte
// arrives as it was sent. Package tokens tests the formats.
func TestUsage(t *testing.T) {
	const sse = "text/event-stream"
	for _, test := range []struct{ name, preset, media, encoding, body string }{
		{"a body", "openai", "application/json", "", chatBody},
		{"events with gzip", "openai", sse, "gzip", zipped(chatEvents)},
		{"in the first and the last event", "anthropic", sse, "", messageEvents},
	} {
		for _, whole := range []bool{true, false} {
			u := testkit.ServeHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("%s: the upstream was asked for %q", test.name, got)
				}
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != chatRequest {
					t.Errorf("%s: the upstream got %q, %v", test.name, body, err)
				}
				w.Header().Set("Content-Type", test.media)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				if whole {
					io.WriteString(w, test.body)
					return
				}
				for i := range len(test.body) { // a chunk or a frame each
					w.Write([]byte{test.body[i]})
					w.(http.Flusher).Flush()
				}
			}))
			for _, scheme := range []string{"http://", "h2c://"} {
				m := newModel(t, usageRules("preset: "+test.preset), scheme+strings.TrimPrefix(u.URL, "http://"))
				path := "/v1/models/m:chat"
				for n, client := range []*http.Transport{{}, h2c(t)} {
					client.DisableCompression = true
					resp := send(t, client, post(t, m.URL+path, chatRequest))
					if body := read(t, resp); resp.StatusCode != 200 || resp.ProtoMajor != n+1 || body != test.body {
						t.Fatalf("%s: HTTP/%d: %d, %q", test.name, resp.ProtoMajor, resp.StatusCode, body)
					}
					calls := int64(n + 1)
					m.wantUsed(t, 29*calls, 19*calls, 10*calls, 130*calls) // 11·2 + 8·1 + 10·10
					client.CloseIdleConnections()
				}
				if n := m.unsaid.Load(); n != 0 {
					t.Errorf("%s: %d settlements are estimates", test.name, n)
				}
			}
		}
	}
}

func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	r := request(t, "POST", url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// An event is passed on when it comes, and the estimate is held meanwhile.
func TestUsageIsNotDelayed(t *testing.T) {
	const first, rest = "data: {\"choices\":[{}]}\n\n", chatEvents
	for _, client := range []*http.Transport{{}, h2c(t)} {
		arrived := make(chan bool)
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, first)
			w.(http.Flusher).Flush()
			<-arrived
			io.WriteString(w, rest)
		})
		m := newModel(t, usageRules("preset: openai"), u.URL)
		resp := send(t, client, post(t, m.URL+"/v1/chat", chatRequest))
		got := make([]byte, len(first))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != first {
			t.Fatal(string(got), err)
		}
		input := int64(len(chatRequest)+3) / 4
		m.wantUsed(t, input+100, input, 100, 2*input+1000)
		close(arrived)
		if body := read(t, resp); body != rest {
			t.Fatal(body)
		}
		m.wantUsed(t, 29, 19, 10, 130)
		client.CloseIdleConnections()
	}
}

// The charge if a response does not come to its end, or reports nothing.
func TestUsageWithoutAnEnd(t *testing.T) {
	const (
		sse, body  = "text/event-stream", "application/json"
		open, anth = "preset: openai", "preset: anthropic"
		events     = "\n      missing: events"
		empty      = "data: {}\n\ndata: {}\n\n"
	)
	input := int64(len(chatRequest)+3) / 4
	estimate := []int64{input + 100, input, 100, 2*input + 1000}
	byEvents := []int64{input + 2, input, 2, 2*input + 20}
	said, none := []int64{29, 19, 10, 130}, []int64{0, 0, 0, 0}
	head, _, _ := strings.Cut(messageEvents, "event: message_delta")
	const ends, breaks, hangsUp = 0, 1, 2 // the response, the upstream, the client
	for _, test := range []struct {
		name, usage string
		status      int
		media, body string
		how         int
		want        []int64
		unsaid      int64
	}{
		{"says nothing", open, 200, sse, empty, ends, estimate, 1},
		{"says nothing, events count", open + events, 200, sse, empty, ends, byEvents, 1},
		{"breaks off", open, 200, sse, empty, breaks, estimate, 1},
		{"breaks off after the usage", open, 200, body, chatBody, breaks, said, 0},
		{"breaks off after the input", anth, 200, sse, head, breaks, []int64{119, 19, 100, 11*2 + 8 + 1000}, 1},
		{"a client hangs up", open, 200, sse, empty, hangsUp, estimate, 1},
		{"400", open, 400, body, `{"error":{}}`, ends, none, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			gone := make(chan bool)
			u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.media)
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
				w.(http.Flusher).Flush()
				switch test.how {
				case hangsUp:
					<-gone
				case breaks:
					panic(http.ErrAbortHandler)
				}
			})
			m := newModel(t, usageRules(test.usage), u.URL)
			client := &http.Transport{}
			defer client.CloseIdleConnections()
			r := post(t, m.URL+"/v1/chat", chatRequest)
			ctx, hangUp := context.WithCancel(r.Context())
			defer hangUp()
			resp := send(t, client, r.WithContext(ctx))
			got := make([]byte, len(test.body))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != test.body || resp.StatusCode != test.status {
				t.Fatal(resp.StatusCode, string(got), err)
			}
			if test.how == hangsUp {
				hangUp()
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			m.wantUsed(t, test.want...)
			close(gone)
			testkit.Eventually(t, "the settlement is counted", func() bool { return m.unsaid.Load() == test.unsaid })
		})
	}
}

func TestUsageIsAskedFor(t *testing.T) {
	got := make(chan string, 1)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) {
			t.Errorf("%d bytes announced, got %q, %v", r.ContentLength, body, err)
		}
		got <- string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chatEvents)
	})
	for _, scheme := range []string{"http://", "h2c://"} {
		u := testkit.ServeHTTP2(t, u.Config.Handler)
		m := newModel(t, usageRules("preset: openai\n      inject_usage: true"), scheme+strings.TrimPrefix(u.URL, "http://"))
		do(t, "POST", m.URL+"/v1/chat", strings.NewReader(chatRequest))
		want := `{"stream_options":{"include_usage":true},` + chatRequest[1:]
		if body := receive(t, "the request", got); body != want {
			t.Errorf("the upstream got %q, want %q", body, want)
		}
		long := `{"stream":true,"x":"` + strings.Repeat("x", 64<<10) + `"}` // only its beginning is read
		do(t, "POST", m.URL+"/v1/chat", strings.NewReader(long))
		if body := receive(t, "the request", got); body != long {
			t.Error("a long request was changed")
		}
		m.wantUsed(t, 58, 38, 20, 159) // the model of the long one is not seen: 130, and 29 by default
	}
}

// Five calls at once under a budget of 100 tokens a minute. Each holds its bound and 25 tokens of
// input, or half of the budget if that is less or if it has no bound. What the admitted calls use
// beyond their estimates is over the budget, as docs/llm.md says.
func TestFiveCallsUnderOneBudget(t *testing.T) {
	const calls, prompt, unbounded = 5, 8, 167 // tokens of the request, and of an answer that nothing bounds
	for _, test := range []struct {
		bound, admitted, used int64 // a bound of 0 is none
	}{{20, 2, 56}, {0, 2, 350}} {
		var decided, ended sync.WaitGroup
		proceed := make(chan bool)
		output, fields := int64(unbounded), ""
		if test.bound > 0 {
			output, fields = test.bound, fmt.Sprintf(`,"max_tokens":%d`, test.bound)
		}
		u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			decided.Done()
			<-proceed
			fmt.Fprintf(w, `{"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, output)
		})
		m := newModel(t, "tiers: [{name: all, identity: ip, limits: 100/1m, budget: 100/1m}]\npolicies:\n"+
			"  - {name: chat, match: {path: /**}, usage: {preset: openai}}\n", u.URL)
		body := fmt.Sprintf(`{"model":"m","messages":"tell me a story"%s}`, fields)
		body += strings.Repeat(" ", 100-len(body)) // 25 tokens by its bytes
		var admitted atomic.Int64
		decided.Add(calls)
		for range calls {
			ended.Go(func() {
				if resp, _ := do(t, "POST", m.URL+"/v1/chat", strings.NewReader(body)); resp.StatusCode == 200 {
					admitted.Add(1)
				} else if decided.Done(); resp.StatusCode != 429 {
					t.Errorf("got %d", resp.StatusCode)
				}
			})
		}
		decided.Wait() // while those that were admitted run
		close(proceed)
		ended.Wait()
		if n := admitted.Load(); n != test.admitted {
			t.Errorf("max_tokens %d: %d are admitted, want %d", test.bound, n, test.admitted)
		}
		m.wantUsed(t, test.used)
	}
}

// The rest of a body whose beginning was read has no more time than any other body, whether its
// request is denied or not.
func TestUsageOfBodiesThatStopLater(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for budget, want := range map[string]int{"0": 429, "1000000": 408} {
		m := newModel(t, "tiers: [{name: all, identity: ip, budget: "+budget+"/1m}]\npolicies:\n"+
			"  - {name: chat, match: {path: /**}, usage: {preset: openai}}\ngateway: {body_timeout: 300ms}\n", u.URL)
		conn := dial(t, m.Server)
		fmt.Fprint(conn, "POST /v1/chat HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 70_000))
		if resp := response(t, bufio.NewReader(conn)); resp.StatusCode != want {
			t.Errorf("a budget of %s: got %v, want %d", budget, resp, want)
		}
	}
}
