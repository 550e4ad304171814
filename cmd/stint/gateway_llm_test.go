package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/server"
	"github.com/stint-limiter/stint/stores"
)

// Two gateways over one Redis keep a budget of tokens together, while streams are under way and
// when they have been settled.
func TestGatewaysShareTokens(t *testing.T) {
	binary, redis := buildBinary(t), redistest.Start(t)
	const budget, callers, calls = 3000, 8, 10
	var mu sync.Mutex
	var used, under, most int64 // tokens of streams that have ended, bounds of those that run, most of both
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		input := int64(len(body)+3) / 4
		bound := input + 100
		mu.Lock()
		under += bound
		most = max(most, used+under)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		output := 20 + input%60
		for range output {
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		mu.Lock()
		used, under = used+input+output, under-bound
		mu.Unlock()
		fmt.Fprintf(w, "data: {\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", input, output)
	}))
	defer model.Close()
	config := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`
failure: {mode: error, budget: 5s}
tiers: [{name: all, identity: everyone, limits: 100000/1d, budget: "tokens: %d/1d"}]
policies: [{name: chat, match: {path: /v1/**}, usage: {preset: openai}}]
`, budget)), 0o600); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for range 2 {
		d := launch(t, binary, "gateway", "--upstream", model.URL, "--listen", "127.0.0.1:0", "--store", redis.URL(),
			"--config", config, "--no-access-log")
		urls = append(urls, "http://"+d.at(server.HTTP))
	}
	var admitted, denied atomic.Int64
	var work sync.WaitGroup
	for caller := range callers {
		work.Go(func() {
			for call := range calls {
				body := `{"max_tokens":100,"messages":"` + strings.Repeat("x", 10*call) + `"}`
				resp, err := http.Post(urls[(caller+call)%2]+"/v1/chat", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				switch {
				case err != nil || resp.StatusCode != 200 && resp.StatusCode != 429:
					t.Errorf("got %d, %v", resp.StatusCode, err)
				case resp.StatusCode == 200:
					admitted.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	work.Wait()
	mu.Lock()
	defer mu.Unlock()
	if admitted.Load() == 0 || denied.Load() == 0 {
		t.Fatalf("%d are admitted, %d denied; want some of each", admitted.Load(), denied.Load())
	}
	if used > budget {
		t.Errorf("%d tokens are used, want at most %d", used, budget)
	}
	store, err := stores.Open(t.Context(), redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	eventually.Nil(t, "all is settled", func() error {
		d, err := store.Take(t.Context(), stint.Request{Mode: stint.ModePeek, Claims: []stint.Claim{{
			Subject: "everyone", Scope: "global", Cost: 1,
			Limits: []stint.Limit{stint.PerDay(budget).WithName("tokens")}}}})
		if err != nil {
			return err
		}
		if got := d.Usages()[0].Used; got != used {
			return fmt.Errorf("%d tokens are charged, and %d were used", got, used)
		}
		return nil
	})
	// What a stream may use is held before it begins: the sum never passes the budget either.
	if most > budget {
		t.Errorf("streams under way could use %d tokens at once, want at most %d", most, budget)
	}
}
