//go:build incidents

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// play causes an incident, with the given URL of Redis and limits, after some normal traffic.
type play struct {
	url    string
	limits string        // "" means usualLimits
	every  time.Duration // interval between requests before the incident; 0 means 20 ms
	begins func(*scene)
	ends   func(*scene) // nil if the incident does not end
}

// usualLimits are limits that the usual traffic does not reach.
var usualLimits = fmt.Sprintf(tightLimits, "100000/1h")

// tightLimits is a format for usualLimits with other limits for callers that are not signed in.
const tightLimits = "bans: {after: 0}\ntiers:\n" +
	"  - {name: users, identity: user, limits: 100000/1h}\n  - {name: anonymous, identity: ip, limits: %s}\n"

// plays holds the play of each incident, by the field what of incidentText.
var plays = map[string]func(t *testing.T) play{
	"Redis is killed": func(t *testing.T) play {
		r := redistest.Start(t)
		return play{url: r.URL(), begins: func(*scene) { r.Kill() }, ends: func(*scene) { r.Restart(t) }}
	},
	"Redis is stopped, or hangs": func(t *testing.T) play {
		r := redistest.Start(t)
		return play{url: r.URL(), begins: func(*scene) { r.Pause(t) }, ends: func(*scene) { r.Resume(t) }}
	},
	"Redis, or the way to it, is slow": func(t *testing.T) play {
		p := redistest.StartProxy(t, redistest.Start(t).Addr())
		return play{url: p.URL(), begins: func(*scene) { p.SetLatency(60*time.Millisecond, 0) },
			ends: func(*scene) { p.SetLatency(0, 0) }}
	},
	"The password is changed": func(t *testing.T) play {
		r := redistest.Start(t)
		return play{url: r.URL(),
			begins: func(*scene) { send(t, r, "CONFIG SET requirepass secret", "CLIENT KILL TYPE normal") },
			ends:   func(*scene) { send(t, r, "AUTH secret", `CONFIG SET requirepass ""`) }}
	},
	"Redis is full": func(t *testing.T) play {
		r := redistest.Start(t)
		return play{url: r.URL(), begins: func(*scene) { r.CLI(t, "CONFIG", "SET", "maxmemory", "100kb") },
			ends: func(*scene) { r.CLI(t, "CONFIG", "SET", "maxmemory", "0") }}
	},
	"A script of another client does not end": func(t *testing.T) play {
		r := redistest.Start(t, "--lua-time-limit", "500")
		return play{url: r.URL(), begins: func(*scene) {
			go func() { _, _ = r.Do("EVAL", "while true do end", "0") }()
		}, ends: func(*scene) { r.CLI(t, "SCRIPT", "KILL") }}
	},
	"A node of the Cluster is lost": func(t *testing.T) play {
		c := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
		lost := c.MasterOf(t, "{user:1}")
		return play{url: "redis://" + c.Addrs()[0] + "?addr=" + strings.Join(c.Addrs()[1:], "&addr="),
			begins: func(*scene) { lost.Kill() }, ends: func(*scene) { lost.Restart(t) }}
	},
	"Sentinel fails over": func(t *testing.T) play {
		s := redistest.StartSentinel(t)
		return play{url: "redis://" + s.Addrs()[0] + "?master_set=" + s.MasterName + "&addr=" +
			strings.Join(s.Addrs()[1:], "&addr="), begins: func(*scene) { s.Master.Kill() }}
	},
	"The clock of Redis is set": func(t *testing.T) play {
		r := redistest.StartFakeTime(t)
		return play{url: r.URL(), begins: func(s *scene) {
			testkit.Eventually(t, "its clock was read", func() bool { return !s.state().Store.At.IsZero() })
			r.SetClockOffset(t, time.Hour)
		}}
	},
	"One address sends far too much": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), limits: fmt.Sprintf(tightLimits, "10/1h"), begins: func(s *scene) {
			s.traffic(5*time.Millisecond, func(int) (string, string) { return "/", `"peer": "203.0.113.9"` })
		}}
	},
	"Many addresses attack several routes": func(t *testing.T) play {
		limits := usualLimits + "policies:\n" +
			"  - {name: login, match: {path: /login}, identity: ip, limits: 1/1h}\n" +
			"  - {name: search, match: {path: /search}, identity: ip, limits: 1/1h}\n"
		return play{url: redistest.Start(t).URL(), limits: limits, begins: func(s *scene) {
			s.traffic(5*time.Millisecond, func(n int) (string, string) {
				return []string{"/login", "/search"}[n/2%2], crowd(n / 4 % 100)
			})
		}}
	},
	"The limit of a tier is too low": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), limits: fmt.Sprintf(tightLimits, "2/1h"), begins: func(s *scene) {
			s.traffic(10*time.Millisecond, func(n int) (string, string) { return "/", crowd(n % 40) })
		}}
	},
	"A limit is lowered": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), begins: func(s *scene) {
			for _, file := range s.files {
				testkit.WriteFile(s.t, file, patience+strings.Replace(usualLimits, "100000/1h", "2/1h", 1))
			}
		}}
	},
	"A botnet stays below the limits": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), every: 150 * time.Millisecond, begins: func(s *scene) {
			s.until("100 decisions were made a minute ago", 10*time.Minute, func() bool {
				n := int64(0)
				for _, p := range s.state().Long {
					if time.Since(time.Unix(p.At, 0)) > 70*time.Second {
						n += p.Allowed
					}
				}
				return n >= 100
			})
			s.traffic(5*time.Millisecond, func(n int) (string, string) { return "/", crowd(n % 3000) })
		}}
	},
	"A configuration is invalid": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), begins: func(s *scene) { testkit.WriteFile(s.t, s.files[0], "teirs: []\n") }}
	},
	"An expired certificate is rolled out": func(t *testing.T) play {
		r := redistest.StartTLS(t)
		cert, key := r.CertificateFiles() // Redis also accepts them from clients
		directory := t.TempDir()
		mine, secret := filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")
		roll := func(cert, key string) {
			for to, from := range map[string]string{mine: cert, secret: key} {
				testkit.WriteFile(t, to, testkit.ReadFile(t, from))
			}
		}
		roll(cert, key)
		return play{url: "rediss://" + r.Addr() + "?ca_file=" + cert + "&cert_file=" + mine + "&key_file=" + secret,
			begins: func(*scene) { roll(redistest.CertificateFor(t, -time.Hour)) }}
	},
	"Processes have different configurations": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), begins: func(s *scene) {
			testkit.WriteFile(s.t, s.files[1], patience+fmt.Sprintf(tightLimits, "7/1h"))
		}}
	},
	"A process hangs": func(t *testing.T) play {
		return play{url: redistest.Start(t).URL(), begins: func(s *scene) { s.other.signal(syscall.SIGSTOP) },
			ends: func(s *scene) { s.other.signal(syscall.SIGCONT) }}
	},
}

// crowd returns the field with the nth of many addresses.
func crowd(n int) string { return fmt.Sprintf(`"peer": "198.18.%d.%d"`, n/256, n%256) }

// send sends commands on one connection, which keeps its permissions when the password changes.
func send(t *testing.T, r *redistest.Server, commands ...string) {
	t.Helper()
	conn := testkit.Opened(net.Dial("tcp", r.Addr()))(t)
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

// TestIncidents checks that the page, alerts, the log and the doctor name every incident. During an
// outage of Redis, the page keeps naming the same fault. After it, the page shows that the limiter
// is healthy, and names the fault.
func TestIncidents(t *testing.T) {
	browser, binary := browsertest.Start(t), buildBinary(t)
	for _, i := range incidents {
		t.Run(i.what, func(t *testing.T) {
			prepare := plays[i.what]
			if prepare == nil {
				t.Fatal("it is not played")
			}
			s := stage(t, browser, binary, prepare(t), i.fault != "")
			defer func() { // runs even if the test fails
				if s.play.ends != nil {
					s.play.ends(s)
				}
			}()
			s.says("before", "Limiter healthy.")
			s.play.begins(s)
			s.check(&i)
			if i.fault != "" {
				s.outage(errkind.FaultOf(i.fault))
			}
		})
	}
	if len(plays) != len(incidents) {
		t.Errorf("%d incidents are played and %d are listed", len(plays), len(incidents))
	}
}

// scene is two processes that share a Redis, and the page of the first process on two screens.
type scene struct {
	t       *testing.T
	play    play
	files   [2]string // the configurations of the processes
	log     testkit.Buffer
	admin   string
	other   *daemon
	apis    []string
	screens map[string]*browsertest.Page
}

// patience prevents a busy machine from causing an outage in an incident without one.
const patience = "failure: {budget: 5s}\n"

func stage(t *testing.T, browser *browsertest.Browser, binary string, p play, outage bool) *scene {
	if p.limits == "" {
		p.limits = usualLimits
	}
	if p.every == 0 {
		p.every = 20 * time.Millisecond
	}
	if !outage {
		p.limits = patience + p.limits
	}
	s := &scene{t: t, play: p, files: [2]string{testkit.TempFile(t, "stint.yaml", p.limits), testkit.TempFile(t, "stint.yaml", p.limits)}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	started := time.Now()
	first := startServer(t, server.Config{
		Policies: s.files[0], Store: p.url, HTTP: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Observe: observe.Config{Alerts: observe.AlertConfig{
			For: 2 * time.Second, Thresholds: map[string]float64{"StoreDown": 2,
				// These alerts depend on the machine.
				"ScriptSlow": math.Inf(1), "LimiterSlow": math.Inf(1)}}},
	})
	s.admin = "http://" + first.Addr(server.Admin).String()
	// The older process reports for both, and ages are in whole seconds.
	s.until("a second is over", time.Minute, func() bool { return time.Now().Unix() > started.Unix()+1 })
	s.other = launch(t, binary, "serve", "--store", p.url, "--config", s.files[1], "--http", "127.0.0.1:0",
		"--drain", "0s", "--alert", "ScriptSlow=off", "--alert", "LimiterSlow=off")
	s.apis = []string{"http://" + first.Addr(server.HTTP).String(), "http://" + s.other.at(server.HTTP)}
	s.screens = map[string]*browsertest.Page{"1280": browser.Page(t, 1280, 720), "390": browser.Page(t, 390, 844)}
	for _, page := range s.screens {
		page.Expect("503")
		page.Expect("ERR_CONNECTION_REFUSED") // after the server has ended
		page.Open(s.admin + "/#/overview")
	}
	s.traffic(p.every, func(n int) (string, string) {
		return "/", fmt.Sprintf(`"peer": "192.0.2.1", "claims": {"user": "%d"}`, n/2%20)
	})
	testkit.Eventually(t, "both processes report", func() bool { return len(s.state().Processes) == 2 })
	return s
}

// traffic sends requests to both processes in turn until the test ends. request returns the path of
// the nth request, and more fields for the JSON API.
func (s *scene) traffic(every time.Duration, request func(n int) (path, fields string)) {
	end, done := make(chan struct{}), make(chan struct{})
	client := &http.Client{Timeout: time.Second} // a process may hang
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(every):
			}
			path, fields := request(n)
			body := fmt.Sprintf(`{"method": "GET", "path": %q, %s}`, path, fields)
			response, err := client.Post(s.apis[n%2]+"/v1/take", "application/json", strings.NewReader(body))
			if err == nil {
				_ = response.Body.Close()
			}
		}
	}()
	s.t.Cleanup(func() { close(end); <-done })
}

// sceneState holds the parts of a state that the tests use.
type sceneState struct {
	control.State
	Processes []observe.Process `json:"processes"`
	Long      []observe.Point   `json:"long"`
}

func (s *scene) state() (got sceneState) {
	s.t.Helper()
	_, text := testkit.Fetch(s.t, http.DefaultClient, http.MethodGet, s.admin+"/api/state", "")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// until waits until ok returns true, but not longer than most.
func (s *scene) until(what string, most time.Duration, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(most); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("still not so: %s; the page says %q", what, s.screens["1280"].Text(".verdict"))
		}
	}
}

// says waits until the page shows all texts on both screens.
func (s *scene) says(what string, texts ...string) {
	s.t.Helper()
	began := time.Now()
	for width, page := range s.screens {
		for _, text := range texts {
			page.WaitText(".verdict", text)
		}
		s.t.Logf("%s: the page of %s says so after %v", what, width, time.Since(began).Round(100*time.Millisecond))
	}
}

// check asserts that the page, the alert, the log and the doctor name the incident.
func (s *scene) check(i *incidentText) {
	s.t.Helper()
	s.until("the page says so", 2*time.Minute, func() bool { return s.shows(i.page) })
	s.says("incident", strings.Split(i.page, "…")...)
	for width, page := range s.screens {
		first := browsertest.Eval[bool](page, `document.querySelector(".verdict h1").getBoundingClientRect().top <
			document.querySelector("#alerts").getBoundingClientRect().top`)
		if !first {
			s.t.Errorf("at %s the alerts come before the headline", width)
		}
	}
	if i.alert != "" {
		testkit.Eventually(s.t, "the alert "+i.alert+" fires", func() bool {
			a := s.alert(i.alert)
			return a.State == "firing" && strings.Contains(a.Summary, i.alertSays)
		})
	}
	testkit.Eventually(s.t, "the log says so", func() bool { return strings.Contains(s.log.String(), i.log) })
	where := s.admin
	if i.flag == "--store" {
		where = s.play.url
	}
	s.t.Setenv("STINT_SERVER", "")
	got := execute(s.t, "", "doctor", i.flag, where)
	if line := fmt.Sprintf("%-5s", i.result); !hasLine(got.stdout, line, i.name, i.found) {
		s.t.Errorf("the doctor says %q, with exit code %d; want %s %s %q", got.stdout, got.code, i.result, i.name, i.found)
	}
}

// shows reports whether the page on the wide screen has all parts of text, in any order.
func (s *scene) shows(text string) bool {
	shown := s.screens["1280"].Text(".verdict")
	for _, part := range strings.Split(text, "…") {
		if !strings.Contains(shown, part) {
			return false
		}
	}
	return true
}

// hasLine reports whether a line of text begins with begin and contains all parts.
func hasLine(text, begin string, parts ...string) bool {
	for line := range strings.Lines(text) {
		ok := strings.HasPrefix(line, begin)
		for _, part := range parts {
			ok = ok && strings.Contains(line, part)
		}
		if ok {
			return true
		}
	}
	return false
}

func (s *scene) alert(name string) observe.Alert {
	s.t.Helper()
	for _, a := range s.state().Alerts {
		if a.Name == name {
			return a
		}
	}
	return observe.Alert{}
}

// outage asserts that the page, the alert, the log and the doctor name the fault of Redis, that
// they do so until the fault ends, and that the page then shows the recovery.
func (s *scene) outage(fault errkind.Fault) {
	t := s.t
	s.says("outage", fault.Why, "Fix: "+fault.Fix, "Last error: ")
	until := time.Now().Add(4 * time.Second)
	for time.Now().Before(until) {
		now := s.state()
		if now.Store.Up || now.Store.Outage.Fault != fault.Name {
			t.Fatalf("the store is %+v; want a steady %s", now.Store.Outage, fault.Name)
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
	if fault.Name == errkind.Full {
		testkit.Eventually(t, "RedisMemory fires", func() bool { return s.alert("RedisMemory").State == "firing" })
	}
	if got := s.log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "fault="+fault.Name) {
		t.Errorf("the log does not name the fault %s as an error", fault.Name)
	}
	// For slow answers and a rejected password, the doctor has another fix.
	if same := fault.Name != errkind.Slow && fault.Name != errkind.Auth; same {
		if got := execute(t, "", "doctor", "--store", s.play.url); got.code != exitBad ||
			!strings.Contains(got.stdout, fault.Fix) {
			t.Errorf("the doctor says %q, with exit code %d", got.stdout, got.code)
		}
	}
	wantFinding(t, examine(t, exitBad, "--server", s.admin), "store", resultFail, fault.Is, fault.Fix)

	s.play.ends(s)
	s.play.ends = nil
	s.says("recovery", "Limiter healthy.", "Redis was down from ", "“"+fault.Is)
	if o := s.state().Store.LastOutage; o == nil || o.Fault != fault.Name || !o.Until.After(o.Since) {
		t.Errorf("the last outage is %+v", o)
	}
}
