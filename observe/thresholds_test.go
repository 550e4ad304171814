package observe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

var (
	webhookKey = []byte("0123456789abcdef")
	silent     = slog.New(slog.DiscardHandler)
)

// signed returns the event in a request if its signature is good.
func signed(r *http.Request) (cloudEvent, error) {
	var e cloudEvent
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return e, err
	}
	mac := hmac.New(sha256.New, webhookKey)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if got := r.Header.Get("Webhook-Signature"); got != want {
		return e, fmt.Errorf("the signature is %q, want %q", got, want)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return e, d.Decode(&e)
}

// quota is a guard of a tier with a quota of ten a day that is reported, over a store, and what is
// told of it.
func quota(t *testing.T, store stint.Store, observer stint.Observer) *policy.Guard {
	t.Helper()
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{{Name: "pro", Identity: []string{"user", "ip"},
		Limits: policy.Limits(stint.Daily(10)), Notify: []int{50, 80, 100}}}})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: observer, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func newStore(t *testing.T, c memorystore.Config) stint.Store {
	t.Helper()
	store, err := memorystore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

type user string

func (u user) Claim(name string) string {
	if name == "user" {
		return string(u)
	}
	return ""
}

func ask(t *testing.T, g *policy.Guard, of string) {
	t.Helper()
	in := policy.Input{Method: "GET", Path: "/", Claims: user(of)}
	if err := g.Decide(context.Background(), &in, &policy.Verdict{}); err != nil {
		t.Error(err)
	}
}

// Thresholds are posted with a signature, logged and counted.
func TestThresholdsArePosted(t *testing.T) {
	got := make(chan cloudEvent, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		e, err := signed(r)
		if err != nil || r.Header.Get("Webhook-Id") != e.ID ||
			r.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("%v in %v", err, r.Header)
		}
		got <- e
	}))
	defer server.Close()
	store := newStore(t, memorystore.Config{Now: func() time.Time { return time.Unix(epoch, 0) }})
	log := &testkit.Buffer{}
	hook := Webhook{URL: server.URL, Key: webhookKey}
	m, err := New(Config{Webhooks: []Webhook{hook}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Alerts: AlertConfig{Instance: "web-1"}})
	if err != nil {
		t.Fatal(err)
	}
	guard := quota(t, store, m)
	for range 12 {
		ask(t, guard, "42")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	close(got)
	events := map[int]cloudEvent{}
	for e := range got {
		events[e.Data.Percent] = e
	}
	if len(events) != 3 {
		t.Fatalf("got %v", events)
	}
	for percent, used := range map[int]int64{50: 5, 80: 8, 100: 10} {
		e := events[percent]
		want := thresholdData{Subject: "user:42", Tier: "pro", Scope: "global", Limit: "10/day",
			Percent: percent, Used: used, Max: 10, Until: time.Date(2023, 11, 15, 0, 0, 0, 0, time.UTC),
			Instance: "web-1"}
		if e.Data != want || e.SpecVersion != "1.0" || e.Source != "/stint" || e.Subject != "user:42" ||
			e.ID == "" || e.Time.IsZero() {
			t.Errorf("%d%%: got %+v, want %+v", percent, e, want)
		}
	}
	if got := log.String(); strings.Count(got, "of a quota is used") != 3 {
		t.Errorf("the log is %s", got)
	}
	registry, text := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
	registry.MustRegister(m)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(
		text, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`stint_thresholds_total{percent="50",policy="",tier="pro"} 1`,
		`stint_webhook_messages_total{result="posted",webhook="1"} 3`} {
		if !strings.Contains(text.Body.String(), want+"\n") {
			t.Errorf("there is no line %s in\n%s", want, text.Body)
		}
	}
}

// receiver is a transport to a receiver that is down until some time. It notes what it got.
type receiver struct {
	until time.Time
	mu    sync.Mutex
	ids   map[string]int
	tries int
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	e, err := signed(q)
	if err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries++; time.Now().Before(r.until) {
		return nil, errors.New("connection refused")
	}
	r.ids[e.ID]++
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// A receiver that is down for longer than an hour loses what waits, and that is counted.
func TestThresholdsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testkit.Buffer{}
		to := &receiver{until: time.Now().Add(24 * time.Hour), ids: map[string]int{}}
		w := newWebhook("https://receiver.test/SECRET", thresholdPlan("1", webhookKey),
			slog.New(slog.NewTextHandler(log, nil)))
		w.client.Transport = to
		w.start()
		w.send((&thresholds{}).message(&policy.Threshold{ID: "a", Rule: &policy.Rule{}, Subject: "user:42"}))
		began := time.Now()
		for w.failed.Load() == 0 && time.Since(began) < 24*time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < time.Hour || took > 65*time.Minute {
			t.Errorf("it was given up after %v", took)
		}
		got := log.String()
		if !strings.Contains(got, "failed to post thresholds") || strings.Contains(got, "SECRET") {
			t.Errorf("the log is %s", got)
		}
		w.close()
	})
}
