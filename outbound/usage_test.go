package outbound_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// model is an API whose tokens are counted.
func model() outbound.API {
	return outbound.API{Name: "model", Usage: "gemini", FailFast: true,
		Limits: []stint.Limit{stint.PerDay(1000).WithName("tokens"), stint.PerDay(100)}}
}

// wantUsed checks how many tokens are used or held, and how many calls.
func wantUsed(t *testing.T, c *outbound.Client, tokens, calls int64) {
	t.Helper()
	d := testkit.Must(c.Peek(t.Context()))(t)
	if u := d.Usages(); u[0].Used != tokens || u[1].Used != calls {
		t.Errorf("%d tokens and %d calls are used, want %d and %d", u[0].Used, u[1].Used, tokens, calls)
	}
}

// Estimates are held until they are settled, for an hour if they never are, and for a few minutes
// if the process dies.
func TestWaitForHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		registry := newRegistry(t, store, model())
		client, other := clientOf(t, registry, "model"), clientOf(t, newRegistry(t, store, model()), "model")
		hold := func(tokens int64) stint.Decision {
			t.Helper()
			d := testkit.Must(client.WaitFor(t.Context(), stint.Costs{"tokens": tokens}))(t)
			return d
		}
		d := hold(100)
		hold(200)
		time.Sleep(50 * time.Minute)
		wantUsed(t, client, 300, 2)
		if err := client.Settle(t.Context(), d, stint.Costs{"token": 30}); !errors.As(err, new(*stint.InvalidError)) ||
			!strings.Contains(err.Error(), `Costs["token"]: no limit has that name (did you mean "tokens"?)`) {
			t.Errorf("a misspelled name: %v", err)
		}
		wantUsed(t, client, 300, 2)
		if err := client.Settle(t.Context(), d, stint.Costs{"tokens": 30}); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, client, 230, 2)
		time.Sleep(20 * time.Minute)
		wantUsed(t, client, 30, 1)

		hold(100)
		registry.Close() // no heartbeats come from here on
		time.Sleep(4 * time.Minute)
		wantUsed(t, other, 130, 2)
		time.Sleep(2 * time.Minute)
		wantUsed(t, other, 30, 1)
	})
}

// A stream is charged what it has used while it lasts, and what it reports at the end.
func TestSendReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, newMemory(t), model())
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://model/models/m:stream",
			strings.NewReader(`{"generationConfig":{"maxOutputTokens":87}}`))
		if err != nil {
			t.Fatal(err)
		}
		from, to := io.Pipe()
		resp, err := client.Send(r, testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if body, err := io.ReadAll(r.Body); err != nil || len(body) != 43 {
				t.Errorf("got %q, %v", body, err)
			}
			stream := http.Header{"Content-Type": {"text/event-stream"}}
			return &http.Response{StatusCode: 200, Body: from, Header: stream}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, resp.Body)
			read <- err
		}()
		wantUsed(t, client, 98, 1)
		for _, step := range []struct {
			event string
			want  int64
		}{
			{`data: {"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":50}}`, 98},
			{`data: {"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":200}}`, 207},
			{`data: {"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":700}}`, 707},
		} {
			io.WriteString(to, step.event+"\n\n")
			time.Sleep(20 * time.Second)
			wantUsed(t, client, step.want, 1)
		}
		io.WriteString(to, `data: {"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":800}}`+"\n\n")
		to.Close()
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		wantUsed(t, client, 807, 1)
	})
}
