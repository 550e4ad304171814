package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

const token = "token-of-these-tests"

// called is what a server was asked.
type called struct{ request, body, token, media string }

// listener answers everything with the same, and notes what it was asked.
func listener(t *testing.T, status int, body string) (*control.Client, *called) {
	t.Helper()
	got := &called{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		*got = called{r.Method + " " + r.URL.String(), string(text), r.Header.Get("Authorization"),
			r.Header.Get("Content-Type")}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return client(t, server.URL), got
}

func client(t *testing.T, url string) *control.Client {
	t.Helper()
	return testkit.Must(control.NewClient(url, token))(t)
}

// TestClientAsks: each method asks for what it is named after, with the token.
func TestClientAsks(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const done = `{"ok":true,"subject":"a","note":"b"}`
	a, named, ctx := of("a"), control.Named{Subject: "a", Note: "b"}, t.Context()
	type client = control.Client
	for _, test := range []struct {
		request, body, answer string
		ask                   func(*client) (any, error)
		want                  any
	}{
		{"GET /api/subject?subject=user%3A4+2", "", `{"subject":"user:4 2","ban":{"until":"2026-01-02T03:04:05Z","level":2}}`,
			func(c *client) (any, error) { return c.Subject(ctx, of("user:4 2")) },
			control.Subject{Named: control.Named{Subject: "user:4 2"}, Ban: driver.BanState{Until: until, Level: 2}}},
		{"GET /api/subject?raw=true&subject=ref%3Ax1", "", `{"subject":"ref:x1"}`,
			func(c *client) (any, error) { return c.Subject(ctx, control.TargetOf("ref:x1", true)) },
			control.Subject{Named: control.Named{Subject: "ref:x1"}}},
		{"GET /api/subject?ref=x1", "", `{"subject":"a"}`,
			func(c *client) (any, error) { return c.Subject(ctx, control.TargetOf("ref:x1", false)) },
			control.Subject{Named: control.Named{Subject: "a"}}},
		{"GET /api/bans?n=7", "", `{"bans":[{"subject":"a","until":"2026-01-02T03:04:05Z"}]}`,
			func(c *client) (any, error) { return c.Bans(ctx, 7) },
			[]control.Ban{{Banned: driver.Banned{Subject: "a", BanState: driver.BanState{Until: until}}}}},
		{"GET /api/processes", "", `{"processes":[{"name":"web-1/7","self":true}]}`,
			func(c *client) (any, error) { return c.Processes(ctx) }, []observe.Process{{Name: "web-1/7", Self: true}}},
		{"GET /api/top?by=ip&n=3", "", `{"top":[{"subject":"a","denied":9}]}`,
			func(c *client) (any, error) { return c.Top(ctx, "ip", 3) }, []observe.Offender{{Subject: "a", Denied: 9}}},
		{"GET /api/violations?n=2", "", `{"violations":[{"reason":"ban"}]}`,
			func(c *client) (any, error) { return c.Violations(ctx, 2) }, []observe.Violation{{Reason: "ban"}}},
		{"GET /api/state", "", `{"version":"v1","config":{"phase":"ready","sources":[{"name":"policies","error":"no"}]}}`,
			func(c *client) (any, error) { return c.State(ctx) }, control.State{Version: "v1", Config: control.ConfigState{
				Phase: "ready", Sources: []control.SourceState{{Name: "policies", Error: "no"}}}}},
		{"GET /readyz", "", "ready\n", func(c *client) (any, error) { return nil, c.Ready(ctx) }, nil},
		{"POST /api/reset", `{"subject":"a"}`, done, func(c *client) (any, error) { return c.Reset(ctx, a) }, named},
		{"POST /api/reset", `{"ref":"x1"}`, done,
			func(c *client) (any, error) { return c.Reset(ctx, control.TargetOf("ref:x1", false)) }, named},
		{"POST /api/ban", `{"subject":"a","for":"1h30m0s"}`, done,
			func(c *client) (any, error) { return c.Ban(ctx, a, 90*time.Minute) }, named},
		{"POST /api/unban", `{"subject":"a"}`, done, func(c *client) (any, error) { return c.Unban(ctx, a) }, named},
		{"POST /api/take", `{"subject":"a","tier":"free","cost":2,"peek":true}`, `{"subject":"a","allowed":true}`,
			func(c *client) (any, error) {
				return c.Take(ctx, control.TakeRequest{Target: a, Tier: "free", Cost: 2, Peek: true})
			}, control.TakeResult{Named: control.Named{Subject: "a"}, Allowed: true}},
	} {
		c, got := listener(t, http.StatusOK, test.answer)
		result, err := test.ask(c)
		if err != nil || !reflect.DeepEqual(result, test.want) {
			t.Errorf("%s: got %+v, %v; want %+v", test.request, result, err, test.want)
		}
		want := called{test.request, test.body, "Bearer " + token, ""}
		if test.body != "" {
			want.media = "application/json"
		}
		if *got != want {
			t.Errorf("asked %+v, want %+v", *got, want)
		}
	}
}

func TestClientRefused(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{401, `{"error":"unauthorized","message":"A token is needed."}`, "A token is needed."},
		{503, `{"error":"unavailable","message":"The store is unavailable."}`, "The store is unavailable."},
		{502, "<html>", "the server answers 502 Bad Gateway"},
		{307, "", "the server answers 307 Temporary Redirect"},
	} {
		c, _ := listener(t, test.status, test.body)
		_, err := c.Unban(t.Context(), of("a"))
		if refused, ok := errors.AsType[*control.RefusedError](err); !ok || refused.Status != test.status || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	c, _ := listener(t, http.StatusOK, "<html>")
	_, err := c.Bans(t.Context(), 1)
	if _, ok := errors.AsType[*control.UnreachableError](err); !ok ||
		!strings.Contains(err.Error(), "its answer to /api/bans is malformed") {
		t.Errorf("got %v", err)
	}
	server := httptest.NewServer(nil)
	server.Close()
	err = client(t, server.URL).Ready(t.Context())
	lost, ok := errors.AsType[*control.UnreachableError](err)
	if !ok || !errors.Is(err, syscall.ECONNREFUSED) || lost.Server != server.URL {
		t.Errorf("got %v, want that nobody is there", err)
	}
}

func TestNewClient(t *testing.T) {
	for _, where := range []string{"", "localhost:6070", "ftp://a", "http://", "redis://localhost", "\x00"} {
		if _, err := control.NewClient(where, ""); err == nil ||
			!strings.HasSuffix(err.Error(), "want a URL such as http://127.0.0.1:6070") {
			t.Errorf("%q: got %v", where, err)
		}
	}
	if _, err := control.NewClient("http://a", "a b"); err == nil || strings.Contains(err.Error(), "a b") {
		t.Errorf("a token with a blank: got %v", err)
	}
}

func TestStream(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "A token is needed.")
			return
		}
		_, _ = io.WriteString(w, ": a comment\n\nevent: other\ndata: {\n\n")
		for i := range 3 {
			text, _ := json.Marshal(observe.Tick{Point: observe.Point{At: int64(i)}})
			fmt.Fprintf(w, "event: tick\ndata: %s\n\n", text)
		}
		_, _ = io.WriteString(w, "data: {}\n\n: another\nevent: tick\ndata: {\"unshown\": 9}\n\nevent: tick\ndata: {\"uns")
	}))
	t.Cleanup(server.Close)
	c := client(t, server.URL)

	var onTick []int64
	err := c.Stream(t.Context(), func(tick *observe.Tick) error {
		onTick = append(onTick, tick.Point.At+tick.Unshown)
		return nil
	})
	_, lost := errors.AsType[*control.UnreachableError](err)
	if want := []int64{0, 1, 2, 9}; !reflect.DeepEqual(onTick, want) || !lost || !errors.Is(err, io.EOF) {
		t.Errorf("heard %v and %v; want %v, and the end", onTick, err, want)
	}
	enough := errors.New("enough")
	if err := c.Stream(t.Context(), func(*observe.Tick) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want that of who listens", err)
	}
	stranger := testkit.Must(control.NewClient(server.URL, ""))(t)
	err = stranger.Stream(t.Context(), nil)
	if refused, ok := errors.AsType[*control.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("got %v, want that it is refused", err)
	}
}
