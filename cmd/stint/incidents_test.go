//go:build incidents

package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/logtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// outage is a Redis that breaks and works again. Doctor is what "stint doctor --store" says of it,
// in the finding of that name, and sameFix whether its remedy is that of the fault.
type outage struct {
	url           string
	breaks, works func()
	name, doctor  string
	sameFix       bool
}

// outages are the faults of docs/troubleshooting.md, each made with a real Redis.
var outages = map[string]func(t *testing.T) outage{
	errkind.Unreachable: func(t *testing.T) outage {
		r := redistest.Start(t)
		return outage{r.URL(), r.Kill, func() { r.Restart(t) }, "connection", "cannot be reached", true}
	},
	errkind.Silent: func(t *testing.T) outage {
		r := redistest.Start(t)
		return outage{r.URL(), func() { r.Pause(t) }, func() { r.Resume(t) },
			"connection", "accepts connections but does not answer", true}
	},
	errkind.Slow: func(t *testing.T) outage {
		p := redistest.StartProxy(t, redistest.Start(t).Addr())
		return outage{p.URL(), func() { p.SetLatency(60*time.Millisecond, 0) }, func() { p.SetLatency(0, 0) },
			"latency", "decisions take at least as long", false}
	},
	errkind.Auth: func(t *testing.T) outage {
		r := redistest.Start(t)
		return outage{r.URL(),
			func() { send(t, r, "CONFIG SET requirepass secret", "CLIENT KILL TYPE normal") },
			func() { send(t, r, "AUTH secret", `CONFIG SET requirepass ""`) },
			"connection", "requires a password", false}
	},
	errkind.Full: func(t *testing.T) outage {
		r := redistest.Start(t)
		return outage{r.URL(), func() { r.CLI(t, "CONFIG", "SET", "maxmemory", "100kb") },
			func() { r.CLI(t, "CONFIG", "SET", "maxmemory", "0") }, "scripts", "is out of memory", true}
	},
	errkind.Script: func(t *testing.T) outage {
		r := redistest.Start(t, "--lua-time-limit", "500")
		return outage{r.URL(), func() {
			go func() { _, _ = r.Do("EVAL", "while true do end", "0") }()
		}, func() { r.CLI(t, "SCRIPT", "KILL") }, "connection", "is blocked by a script", true}
	},
	errkind.Node: func(t *testing.T) outage {
		c := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
		lost := c.MasterOf(t, "{user:1}")
		return outage{"redis://" + c.Addrs()[0] + "?addr=" + strings.Join(c.Addrs()[1:], "&addr="), lost.Kill,
			func() { lost.Restart(t) }, "cluster", "has lost a node of its Cluster: " + lost.Addr(), true}
	},
}

// send sends commands on one connection, which stays an operator's when the password changes.
func send(t *testing.T, r *redistest.Server, commands ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			t.Fatal(err)
		}
		if answer, err := answers.ReadString('\n'); err != nil || strings.HasPrefix(answer, "-") {
			t.Fatalf("%s: %s, %v", command, answer, err)
		}
	}
}

// Every fault of a Redis is named on the page, in alerts, in the log and by the doctor, with its
// own remedy. While it lasts the page does not change its mind, and afterwards it is well and says
// what happened.
func TestIncidents(t *testing.T) {
	browser := browsertest.Start(t)
	for _, fault := range errkind.Faults {
		start, ok := outages[fault.Kind]
		if !ok {
			continue
		}
		t.Run(fault.Kind, func(t *testing.T) { playOutage(t, browser, fault, start(t)) })
	}
}

func playOutage(t *testing.T, browser *browsertest.Browser, fault errkind.Fault, o outage) {
	var log logtest.Buffer
	s, err := server.New(server.Config{
		Policies: write(t, "stint.yaml", "bans: {after: 0}\ntiers:\n  - {name: all, identity: [user, ip], limits: 100000/1h}\n"),
		Store:    o.url, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observe: observe.Config{Alerts: observe.AlertConfig{
			For: 2 * time.Second, Thresholds: map[string]float64{"StoreDown": 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	admin := "http://" + s.Addr(server.Admin).String()
	client, err := control.NewClient(admin, "")
	if err != nil {
		t.Fatal(err)
	}
	state := func() control.State {
		t.Helper()
		got, err := client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	screens := map[string]*browsertest.Page{"1280": browser.Page(t, 1280, 720), "390": browser.Page(t, 390, 844)}
	for _, page := range screens {
		page.Expect("503")
		page.Expect("ERR_CONNECTION_REFUSED") // when the server has ended
		page.Open(admin + "/#/overview")
	}
	says := func(what string, texts ...string) {
		t.Helper()
		began := time.Now()
		for width, page := range screens {
			for _, text := range texts {
				page.WaitText(".verdict", text)
			}
			t.Logf("%s: the page of %s says so after %v", what, width, time.Since(began).Round(100*time.Millisecond))
		}
	}
	traffic(t, "http://"+s.Addr(server.HTTP).String())
	says("before", "Limiter healthy.")

	o.breaks()
	says("outage", "Limiter degraded: Redis "+fault.Is, fault.Why, "Fix: "+fault.Fix, "Last error: ")
	for width, page := range screens {
		first := browsertest.Eval[bool](page, `document.querySelector(".verdict h1").getBoundingClientRect().top <
			document.querySelector("#alerts").getBoundingClientRect().top`)
		if !first {
			t.Errorf("at %s the alerts come before the headline", width)
		}
	}
	alert := func(name string) observe.Alert {
		for _, a := range state().Alerts {
			if a.Name == name {
				return a
			}
		}
		return observe.Alert{}
	}
	eventually.True(t, "the alert fires", func() bool { return alert("StoreDown").State == "firing" })
	// From here on nothing changes its mind.
	until := time.Now().Add(4 * time.Second)
	for time.Now().Before(until) {
		now := state()
		if now.Store.Up || now.Store.Outage.Fault != fault.Kind {
			t.Fatalf("the store is %+v; want a steady %s", now.Store.Outage, fault.Kind)
		}
		for _, a := range now.Alerts {
			if a.Name == "StoreDown" && (a.State != "firing" || !strings.Contains(a.Summary, "It "+fault.Is) ||
				!strings.Contains(a.Summary, fault.Fix) || !strings.Contains(a.Summary, "Last error: stint: ")) {
				t.Fatalf("the alert is %+v", a)
			}
			if a.Name == "ScriptErrors" && a.State == "firing" {
				t.Fatalf("two alerts for one cause: %+v", a)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	if fault.Kind == errkind.Full {
		eventually.True(t, "RedisMemory fires", func() bool { return alert("RedisMemory").State == "firing" })
	}
	eventually.True(t, "the log names the fault", func() bool {
		return regexp.MustCompile(`level=ERROR msg="stint: the store (still )?cannot be asked: it ` + regexp.QuoteMeta(fault.Is) +
			`[^\n]* fault=` + fault.Kind).MatchString(log.String())
	})
	if got := execute(t, "", "doctor", "--store", o.url); got.code != exitBad ||
		!regexp.MustCompile(`(?m)^fail +`+o.name+` .*`+regexp.QuoteMeta(o.doctor)).MatchString(got.stdout) ||
		o.sameFix && !strings.Contains(got.stdout, fault.Fix) {
		t.Errorf("the doctor says %q, with exit code %d", got.stdout, got.code)
	}
	wantFinding(t, examine(t, exitBad, "--server", admin), "store", resultFail, fault.Is, fault.Fix)

	o.works()
	says("recovery", "Limiter healthy.", "Redis was down from ", "“"+fault.Is)
	if o := state().Store.LastOutage; o == nil || o.Fault != fault.Kind || !o.Until.After(o.Since) {
		t.Errorf("the last outage is %+v", o)
	}
}

// traffic has a few users make some requests each second until the test ends.
func traffic(t *testing.T, api string) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			body := fmt.Sprintf(`{"method": "GET", "path": "/", "peer": "192.0.2.1", "claims": {"user": "%d"}}`, n%20)
			response, err := http.Post(api+"/v1/take", "application/json", strings.NewReader(body))
			if err == nil {
				_ = response.Body.Close()
			}
		}
	}()
	t.Cleanup(func() { close(end); <-done })
}
