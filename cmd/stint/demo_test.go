package main

import (
	"bytes"
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
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// running is the demo while it runs.
type running struct {
	dashboard, gateway, policies string
	out                          *guideText
}

// startDemo runs the demo until the test ends, and returns when it says where it is. An incident
// begins soon, and an outage is short.
func startDemo(t *testing.T, c demoCommand) running {
	t.Helper()
	const after, length = time.Second, 4 * time.Second
	var out guideText
	out.whole = make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.run(ctx, &system{Stdout: &out, Stderr: io.Discard, Program: "bin/stint"}, after, length)
	}()
	var text string
	select {
	case text = <-out.whole:
	case err := <-ended:
		cancel()
		t.Fatalf("it has ended: %v", err)
	}
	field := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` +(\S+)`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in\n%s", name, text)
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

// guideText hands over the guide when all of it has been written.
type guideText struct {
	mu    sync.Mutex
	text  bytes.Buffer
	whole chan string
}

func (g *guideText) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text.Write(b)
	if text := g.text.String(); strings.HasSuffix(text, "Press Ctrl-C to stop.\n") {
		g.whole <- text
	}
	return len(b), nil
}

func (g *guideText) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// until reads the stream of the dashboard until it has shown what the test waits for.
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

// TestDemoOfAModel has callers decided by limits on tokens, and those without a key denied.
func TestDemoOfAModel(t *testing.T) {
	d := startDemo(t, demoCommand{Rate: 500, Store: "memory", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", LLM: true})
	d.until(t, "a limit on tokens", func(tick *observe.Tick) bool {
		return slices.ContainsFunc(tick.Series, func(s observe.Series) bool {
			return slices.Contains([]string{"key", "user", "team", "org"}, s.Policy)
		})
	})
	resp, err := http.Post(d.gateway+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without a key: got %d, want 429", resp.StatusCode)
	}
}

// TestDemo has the page there, everything on it moving, and the commands that the guide names work.
func TestDemo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// A port in use is no obstacle.
	d := startDemo(t, demoCommand{Rate: 200, Store: "memory", Listen: taken.Addr().String(), Admin: "127.0.0.1:0",
		Incident: floodIncident})

	page, err := http.Get(d.dashboard + "/")
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
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

	testkit.Eventually(t, "the flood begins", func() bool {
		return strings.Contains(d.out.String(), "  the flood begins\n") && strings.Contains(d.out.String(), "bin/stint ban ip:203.0.113.200 --for 10m")
	})
	flags := []string{"--server", d.dashboard}
	do := func(args ...string) result { return execute(t, "", append(args, flags...)...) }
	if got := do("inspect", "user:alice", "--tier", "free", "--all"); got.code != exitGood ||
		!strings.Contains(got.stdout, "free in api: 30/1m burst 2x") {
		t.Errorf("inspect: %+v", got)
	}
	if got := do("doctor"); !strings.Contains(got.stdout, "ok    server") ||
		!strings.Contains(got.stdout, "ok    store") {
		t.Errorf("doctor: %+v", got)
	}
}

// TestDemoOutage: Redis is killed and started again, and all the while requests are decided.
func TestDemoOutage(t *testing.T) {
	d := startDemo(t, demoCommand{
		Rate: 5, Store: memoryStore, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Incident: outageIncident})
	answers := func(degraded bool) {
		t.Helper()
		testkit.EventuallyNil(t, fmt.Sprintf("an answer, degraded: %t", degraded), func() error {
			r, err := http.NewRequest(http.MethodGet, d.gateway+"/api/pdb/4hhb", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Service", "test") // as good as unlimited
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			got.Body.Close()
			if mark := got.Header.Get("X-RateLimit-Degraded"); got.StatusCode != http.StatusOK ||
				(mark != "") != degraded {
				return fmt.Errorf("got %d, degraded %q", got.StatusCode, mark)
			}
			return nil
		})
	}
	said := func(what string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool { return strings.Contains(d.out.String(), what) })
	}
	said("Incident   at ")
	said(d.dashboard + "/#/overview")
	said("  Redis is down\n")
	answers(true)
	said("  Redis is back\n")
	answers(false)
}

func TestDemoMistakes(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"--rate=0", "--rate: 0; want 1 to 2000"},
		{"--store=reddis", `--store: want memory, redis, or a URL such as redis://localhost:6379/0 (did you mean "redis"?)`},
		{"--incident=flod", `--incident: "flod"; want flood or outage (did you mean "flood"?)`},
		{"--incident=outage --store=redis", "--incident outage: the demo starts its own Redis server; remove --store"},
		{"--for=soon", `--for: invalid duration "soon"; want one such as 30s, 10m, 1h30m or 7d, at most a year`},
	} {
		if got := execute(t, "", append([]string{"demo"}, strings.Fields(test.flag)...)...); got.code != exitUsage ||
			!strings.HasSuffix(got.stderr, test.want+"\n") {
			t.Errorf("%s: got %+v", test.flag, got)
		}
	}
}
