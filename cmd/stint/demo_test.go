package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

type running struct {
	dashboard, gateway, policies string
	out                          *testkit.Buffer
}

// startDemo runs the demo until the test ends, and returns when the demo has printed its addresses.
// Incidents begin early, and outages are short.
func startDemo(t *testing.T, c demoCommand) running {
	t.Helper()
	const after, length = time.Second, 4 * time.Second
	var out testkit.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.run(ctx, &system{Stdout: &out, Stderr: io.Discard, Program: "bin/stint"}, after, length)
	}()
	testkit.Eventually(t, "the guide is printed, or the demo ends", func() bool {
		return strings.Contains(out.String(), "Press Ctrl-C to stop.\n") || len(ended) > 0
	})
	text := out.String()
	field := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` +(\S+)`).FindStringSubmatch(text)
		if found == nil {
			cancel()
			t.Fatalf("no %s in\n%s%v", name, text, <-ended)
		}
		return strings.TrimSuffix(found[1], "/")
	}
	if !strings.Contains(text, "\n  bin/stint top") {
		t.Errorf("the guide does not call the program as it was called:\n%s", text)
	}
	d := running{field("Dashboard"), field("Gateway"), field("Limits"), &out}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if _, err := os.Stat(filepath.Dir(d.policies)); !os.IsNotExist(err) {
			t.Errorf("its directory is still there: %v", err)
		}
	})
	return d
}

// until reads the stream of the dashboard until shown returns true.
func (d *running) until(t *testing.T, what string, shown func(*observe.Tick) bool) {
	t.Helper()
	client, err := control.NewClient(d.dashboard, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ok := false
	err = client.Stream(ctx, func(tick *observe.Tick) error {
		if ok = shown(tick); ok {
			return io.EOF
		}
		return nil
	})
	if !ok {
		t.Errorf("the dashboard has not shown %s: %v", what, err)
	}
}

// TestDemoOfAModel checks that limits on tokens apply, and that requests without a key are denied.
func TestDemoOfAModel(t *testing.T) {
	d := startDemo(t, demoCommand{Rate: 500, Store: "memory", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", LLM: true})
	d.until(t, "a limit on tokens", func(tick *observe.Tick) bool {
		return slices.ContainsFunc(tick.Series, func(s observe.Series) bool {
			return slices.Contains([]string{"key", "user", "team", "org"}, s.Policy)
		})
	})
	resp, _ := testkit.Fetch(t, http.DefaultClient, http.MethodPost, d.gateway+"/v1/chat/completions", "{}", "Content-Type: application/json")
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without a key: got %d, want 429", resp.StatusCode)
	}
}

// TestDemo checks that the page is served, that all of its contents change, and that the commands
// in the guide work.
func TestDemo(t *testing.T) {
	taken := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	// The demo chooses another port if one is in use.
	d := startDemo(t, demoCommand{Rate: 200, Store: "memory", Listen: taken.Addr().String(), Admin: "127.0.0.1:0",
		Incident: floodIncident})

	page, _ := testkit.Fetch(t, http.DefaultClient, http.MethodGet, d.dashboard+"/", "")
	if page.StatusCode != http.StatusOK {
		t.Errorf("the page: got %d, want 200", page.StatusCode)
	}

	missing := map[string]bool{"internal": true, "enterprise": true, "pro": true, "free": true, "anonymous": true, "outbound": true}
	denied := int64(0)
	d.until(t, "all tiers and a denial", func(tick *observe.Tick) bool {
		for _, s := range tick.Series {
			delete(missing, s.Tier)
		}
		denied += tick.Point.Denied
		return len(missing) == 0 && denied > 0
	})

	d.out.Await(t, "  the flood begins\n")
	d.out.Await(t, "bin/stint ban ip:203.0.113.200 --for 10m")
	flags := []string{"--server", d.dashboard}
	do := func(args ...string) result { return execute(t, "", append(args, flags...)...) }
	wantResult(t, do("inspect", "user:alice", "--tier", "free", "--all"), exitGood, "free in api: 30/1m burst 2x", "")
	if got := do("doctor"); !strings.Contains(got.stdout, "ok    server") || !strings.Contains(got.stdout, "ok    store") {
		t.Errorf("doctor: %+v", got)
	}
}

// TestDemoOutage checks that requests are decided while Redis is killed and started again.
func TestDemoOutage(t *testing.T) {
	d := startDemo(t, demoCommand{
		Rate: 5, Store: memoryStore, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Incident: outageIncident})
	answers := func(degraded bool) {
		t.Helper()
		testkit.EventuallyNil(t, fmt.Sprintf("an answer, degraded: %t", degraded), func() error {
			r := testkit.Must(http.NewRequest(http.MethodGet, d.gateway+"/api/pdb/4hhb", nil))(t)
			r.Header.Set("X-Service", "test") // practically unlimited
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			got.Body.Close()
			if mark := got.Header.Get("X-RateLimit-Degraded"); got.StatusCode != http.StatusOK || (mark != "") != degraded {
				return fmt.Errorf("got %d, degraded %q", got.StatusCode, mark)
			}
			return nil
		})
	}
	d.out.Await(t, "Incident   at ")
	d.out.Await(t, d.dashboard+"/#/overview")
	d.out.Await(t, "  Redis is down\n")
	answers(true)
	d.out.Await(t, "  Redis is back\n")
	answers(false)
}
