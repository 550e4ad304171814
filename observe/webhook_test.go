package observe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

var fire = Alert{
	Name: "StoreDown", Severity: "page", State: "firing", Summary: "The store is down.", Value: 61,
	Threshold: 60, Unit: "s", Since: time.Unix(epoch, 0).UTC(),
}

// hook is a webhook to a receiver, without pauses, and its log.
func hook(t *testing.T, receiver http.HandlerFunc) (*webhook, *testkit.Buffer) {
	t.Helper()
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	log := &testkit.Buffer{}
	plan := alertPlan()
	plan.pauses = []time.Duration{0, 0}
	w := newWebhook(server.URL+"/SECRET", plan, slog.New(slog.NewTextHandler(log, nil))).start()
	t.Cleanup(func() {
		select {
		case <-w.closing:
		default:
			w.close()
		}
	})
	return w, log
}

// sent is an alert as it is posted.
func sent(a Alert) message { return (&alerts{instance: "web-1"}).message(&a) }

func TestWebhookTriesAgain(t *testing.T) {
	tests := []struct {
		name     string
		answers  []int // 0 is a connection that is cut; the last is given to all that follow
		attempts int64
		log      string
	}{
		{"at once", []int{204}, 1, ""},
		{"after a cut", []int{0, 200}, 2, ""},
		{"after errors", []int{500, 429, 200}, 3, ""},
		{"in vain", []int{503}, 3, "the receiver answered 503"},
		{"cut for good", []int{0}, 3, "cause=EOF"},
		{"refused", []int{404}, 1, "the receiver answered 404"},
		{"sent elsewhere", []int{302}, 1, "the receiver answered 302"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var attempts atomic.Int64
			end := make(chan struct{})
			w, log := hook(t, func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "TheEnd") {
					close(end)
					return
				}
				n := attempts.Add(1)
				code := test.answers[min(int(n), len(test.answers))-1]
				if code == 0 {
					panic(http.ErrAbortHandler)
				}
				rw.Header().Set("Location", "/")
				rw.WriteHeader(code)
			})
			w.send(sent(fire))
			w.send(sent(Alert{Name: "TheEnd"}))
			<-end
			if got := attempts.Load(); got != test.attempts {
				t.Errorf("%d attempts, want %d", got, test.attempts)
			}
			if got := log.String(); (got == "") != (test.log == "") || !strings.Contains(got, test.log) ||
				strings.Contains(got, "SECRET") {
				t.Errorf("the log is %q, want %q and no address", got, test.log)
			}
		})
	}
}

// A receiver that never answers holds up no request, and is given up when the webhook is closed.
func TestWebhookNeverBlocks(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	w, log := hook(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	})
	w.send(sent(fire))
	<-asked
	for range w.webhookPlan.queue + 100 {
		w.send(sent(fire))
	}
	if got := log.String(); strings.Count(got, "too many are waiting") != 1 {
		t.Errorf("the log is %q, want one line about what was dropped", got)
	}
	w.drain = 0
	w.close()
	if got := log.String(); !strings.Contains(got, "dropped at shutdown") || w.dropped.Load() != 100+64 {
		t.Errorf("the log is %q, and %d were dropped", got, w.dropped.Load())
	}
}

// What waits when a webhook is closed is posted first.
func TestWebhookDrains(t *testing.T) {
	got, first := make(chan string, 10), make(chan struct{})
	w, log := hook(t, func(_ http.ResponseWriter, r *http.Request) {
		<-first
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
	})
	for range 5 {
		w.send(sent(fire))
	}
	time.AfterFunc(10*time.Millisecond, func() { close(first) })
	w.close()
	if len(got) != 5 || log.String() != "" {
		t.Errorf("%d of 5 were posted, and the log is %q", len(got), log)
	}
}

// TestAlertsArePosted and logged when they begin to fire and when they end, and not when they are pending.
func TestAlertsArePosted(t *testing.T) {
	got := make(chan map[string]any, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n map[string]any
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v: %v", r.Method, r.Header, err)
		}
		got <- n
	}))
	defer server.Close()
	w := newWatchman(AlertConfig{Webhook: server.URL, Instance: "web-2",
		Thresholds: map[string]float64{"ScriptErrors": math.Inf(1)}})
	log := &testkit.Buffer{}
	w.logger = slog.New(slog.NewTextHandler(log, nil))
	w.after(t, time.Minute, "StoreDown", down)
	w.after(t, time.Minute, "StoreDown", down)
	w.after(t, time.Minute, "StoreDown", up)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "alert=StoreDown") ||
		!strings.Contains(lines[1], "StoreDown has ended") {
		t.Errorf("the log is %s", log)
	}
	for _, want := range []map[string]any{
		{"state": "firing", "value": 60.0, "text": "[page] stint on web-2: StoreDown (60 s): The store has been down for more than 60 s"},
		{"state": "ok", "value": 0.0, "text": "[ended] stint on web-2: StoreDown (0 s)"},
	} {
		n := <-got
		if n["name"] != "StoreDown" || n["severity"] != "page" || n["threshold"] != 60.0 || n["unit"] != "s" || n["instance"] != "web-2" ||
			n["state"] != want["state"] || n["value"] != want["value"] || !strings.HasPrefix(n["text"].(string), want["text"].(string)) ||
			n["summary"] == "" || n["since"] == nil {
			t.Errorf("posted %v, want %v", n, want)
		}
	}
	w.alerts.webhooks.close()
	if len(got) != 0 {
		t.Errorf("posted %+v too", <-got)
	}
}

// A receiver that is down for longer than an hour loses what waits, and that is counted.
func TestThresholdsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testkit.Buffer{}
		w := newWebhook("https://receiver.test/SECRET", thresholdPlan("1", nil), slog.New(slog.NewTextHandler(log, nil)))
		w.client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		}}
		w.start()
		w.send(message{id: "a"})
		began := time.Now()
		for w.failed.Load() == 0 && time.Since(began) < 24*time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < time.Hour || took > 65*time.Minute {
			t.Errorf("it was given up after %v", took)
		}
		w.close()
		if got := log.String(); !strings.Contains(got, "failed to post thresholds") || strings.Contains(got, "SECRET") {
			t.Errorf("the log is %s", got)
		}
	})
}
