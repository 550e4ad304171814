package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestThresholds: four servers on one Redis see 1,000 users use up their quotas, and a receiver
// that is down at first gets every event. The page of a user shows what it has reached.
func TestThresholds(t *testing.T) {
	const servers, users, batch = 4, 1_000, 20
	var mu sync.Mutex
	ids, posted := map[string]bool{}, 0
	var attempts atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct {
			ID   string
			Data struct{ Percent int }
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil || r.Header.Get("Webhook-Signature") == "" ||
			event.Data.Percent != 50 && event.Data.Percent != 100 {
			t.Errorf("%v in %+v", err, event)
		}
		if attempts.Add(1) <= 40 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ids[event.ID] = true
		posted++
	}))
	t.Cleanup(receiver.Close) // after the servers
	shared := sharing(redistest.Start(t).URL())
	policies := fmt.Sprintf("failure: {budget: 10s}\ntiers:\n  - {name: all, identity: [user, ip], limits: 2/year, notify: [50%%, 100%%]}\n"+
		"webhooks: [{url: %s, key_file: %s}]\n", receiver.URL, testkit.TempFile(t, "key", "0123456789abcdef"))
	var rigs []*rig
	for range servers {
		rigs = append(rigs, start(t, policies, shared))
	}
	var work sync.WaitGroup
	for i, r := range rigs {
		work.Go(func() { // 3 requests of every user in all, each of another server than the one before
			for first := range users / batch {
				if (first+i)%servers == 0 {
					continue
				}
				questions := make([]any, batch)
				for k := range questions {
					questions[k] = question(fmt.Sprint(first*batch + k))
				}
				if status := r.post("/v1/batch", map[string]any{"requests": questions}); status != http.StatusOK {
					t.Errorf("a batch was answered with %d", status)
				}
			}
		})
	}
	work.Wait()
	testkit.EventuallyNil(t, "the receiver has all events", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(ids) == 2*users {
			return nil
		}
		return fmt.Errorf("%d of %d", len(ids), 2*users)
	})
	mu.Lock()
	t.Logf("%d events were posted %d times", len(ids), posted)
	mu.Unlock()

	page := browsertest.Start(t).Page(t, 1280, 900)
	rigs[0].open(page, "subject/user:7")
	page.WaitText(".card .notify", "Thresholds: 50%, 100% reached")
}
