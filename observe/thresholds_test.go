package observe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// Thresholds are posted with a signature, logged and counted.
func TestThresholdsArePosted(t *testing.T) {
	key := []byte("0123456789abcdef")
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, mac := r.Header.Get("Webhook-Id"), hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("Webhook-Timestamp"), body)
		var event map[string]any
		err := json.Unmarshal(body, &event)
		if r.Header.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) ||
			r.Header.Get("Content-Type") != "application/cloudevents+json" || id == "" || event["id"] != id ||
			event["time"] == nil {
			t.Errorf("%v, %s in %v", err, body, r.Header)
		}
		delete(event, "id")
		delete(event, "time")
		got <- fmt.Sprint(event)
	}))
	defer server.Close()
	store := guardtest.MemoryWith(t, memorystore.Config{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }})
	log := &testkit.Buffer{}
	m := open(t, observe.Config{Webhooks: []observe.Webhook{{URL: server.URL, Key: key}},
		Logger: slog.New(slog.NewTextHandler(log, nil)), Alerts: observe.AlertConfig{Instance: "web-1"}})
	g := guardtest.New(t, store, `tiers: [{name: pro, identity: [user, ip], limits: 10/day, notify: [50%, 80%, 100%]}]`,
		policy.GuardConfig{Observer: m})
	ask(t, g, 12, as("42", "/"))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	close(got)
	want := map[string]bool{}
	for _, n := range [][2]int{{50, 5}, {80, 8}, {100, 10}} {
		want[fmt.Sprintf("map[data:map[instance:web-1 limit:10/day max:10 percent:%d policy: scope:global"+
			" subject:user:42 tier:pro until:2023-11-15T00:00:00Z used:%d] datacontenttype:application/json"+
			" source:/stint specversion:1.0 subject:user:42 type:io.github.stint-limiter.threshold]", n[0], n[1])] = true
	}
	for event := range got {
		if !want[event] {
			t.Errorf("got %s", event)
		}
		delete(want, event)
	}
	if len(want) > 0 || strings.Count(log.String(), "of a quota is used") != 3 {
		t.Errorf("%v were not posted, and the log is %s", want, log)
	}
	wantScrape(t, m, `thresholds_total{percent="50",policy="",tier="pro"} 1`,
		`webhook_messages_total{result="posted",webhook="1"} 3`)
}
