package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// reply is an answer of the JSON API, or why there is none.
type reply struct {
	status   int
	Allowed  bool
	Degraded bool
	Error    string
	Limits   []struct{ Used int64 }
	Paused   float64 `json:"paused_seconds"`
	err      error
}

// post makes a call of the JSON API on a connection of its own.
func (r *running) post(ctx context.Context, path, body string) (got reply) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url(HTTP, path), strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+clientToken)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	got.err = errors.Join(err, json.Unmarshal(text, &got))
	got.status = response.StatusCode
	return got
}

// waits makes a call of wait in the background. The function closes its connection.
func (r *running) waits(body string) (answer chan reply, leave context.CancelFunc) {
	ctx, leave := context.WithCancel(r.t.Context())
	answer = make(chan reply, 1)
	go func() { answer <- r.post(ctx, "/v1/wait", body) }()
	return answer, leave
}

// waiting waits until so many calls wait.
func (r *running) waiting(n int64) {
	r.t.Helper()
	testkit.Eventually(r.t, "calls wait", func() bool { waiting, _ := r.api.Waits(); return waiting == n })
}

// used is what peek says of a subject.
func (r *running) used(body string) int64 {
	r.t.Helper()
	got := r.post(r.t.Context(), "/v1/peek", body)
	if got.status != http.StatusOK || len(got.Limits) != 1 {
		r.t.Fatalf("peek: %+v", got)
	}
	return got.Limits[0].Used
}

// waitConfig is that of a server that callers wait on.
func waitConfig(t *testing.T, store, policies string) Config {
	t.Helper()
	return Config{Policies: testkit.TempFile(t, "stint.yaml", policies), APITokens: testkit.TempFile(t, "tokens", clientToken+"\n"),
		Store: store, HTTP: anywhere, Admin: anywhere, APIAdHoc: true}
}

// A connection that closes gives its place in line back, to the callers of all servers. With a
// capacity of 2, an unused place is the only one of 1.
func TestWaitConnectionCloses(t *testing.T) {
	redis := redistest.Start(t)
	policies := patient + three + "outbound: {igdb: {limits: 2/29s}}\n"
	one, two := start(t, waitConfig(t, redis.URL(), policies)), start(t, waitConfig(t, redis.URL(), policies))
	const both, single = `{"subject":"u","limits":["2/29s"],"cost":2}`, `{"subject":"u","limits":["2/29s"]}`
	if got := one.post(t.Context(), "/v1/take", both); !got.Allowed {
		t.Fatalf("got %+v", got)
	}
	answer, leave := two.waits(single)
	two.waiting(1)
	testkit.Eventually(t, "a place is booked", func() bool { return one.used(single) == 3 })
	leave()
	if got := <-answer; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
	testkit.Eventually(t, "the place is given back", func() bool { return one.used(single) == 2 })
	two.waiting(0)
}

// The server's timeouts are for calls that do not wait. When it stops, those that wait are answered
// at once.
func TestWaitAndStop(t *testing.T) {
	r := start(t, waitConfig(t, "", three), func(s *Server) {
		s.timeouts.body, s.timeouts.answer = 2*time.Second, 2*time.Second
	})
	const short, long = `{"subject":"u","limits":["1/5s"]}`, `{"subject":"v","limits":["1/20s"]}`
	for _, body := range []string{short, long} {
		if got := r.post(t.Context(), "/v1/take", body); !got.Allowed {
			t.Fatalf("got %+v", got)
		}
	}
	if got := r.post(t.Context(), "/v1/wait", short); !got.Allowed {
		t.Errorf("a wait of five seconds: %+v", got)
	}
	answer, leave := r.waits(long)
	defer leave()
	r.waiting(1)
	if !r.counted("stint_api_waiting 1", "stint_api_waits_refused_total 0") {
		t.Error("the metrics do not have the call that waits")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(context.Background()) }()
	if got := <-answer; got.status != 503 || got.Error != "stopping" {
		t.Errorf("got %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Servers that share a Redis share the pause of an API, and a reload changes the APIs that callers
// wait for.
func TestWaitTwoServers(t *testing.T) {
	redis := redistest.Start(t)
	const igdb = patient + three + "outbound: {igdb: {limits: 4/1s}}\n"
	one, two := start(t, waitConfig(t, redis.URL(), igdb)), start(t, waitConfig(t, redis.URL(), igdb))
	if got := one.post(t.Context(), "/v1/cooldown", `{"api":"igdb","for_seconds":60}`); got.Paused != 60 {
		t.Fatalf("got %+v", got)
	}
	testkit.Eventually(t, "the other server pauses", func() bool {
		return two.post(t.Context(), "/v1/wait", `{"api":"igdb","max_wait_seconds":1}`).status == 429
	})
	testkit.WriteFile(t, one.c.Policies, strings.Replace(igdb, "igdb", "tmdb", 1))
	one.wantReload("")
	if got := one.post(t.Context(), "/v1/wait", `{"api":"tmdb"}`); !got.Allowed {
		t.Errorf("after the reload: %+v", got)
	}
}
