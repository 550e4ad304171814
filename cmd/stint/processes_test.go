package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// fleetState is what this test wants of a state.
type fleetState struct {
	Series    []observe.Series    `json:"series"`
	Alerts    []observe.Alert     `json:"alerts"`
	Processes []observe.Process   `json:"processes"`
	Store     observe.StoreHealth `json:"store"`
}

func (d *daemon) fleet() (s fleetState) {
	d.t.Helper()
	status, body := d.get(server.Admin, "/api/state")
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		d.t.Fatalf("status %d, %v: %s", status, err, body)
	}
	return s
}

// total adds up what the series of a state have counted.
func (s fleetState) total() (c observe.Counts) {
	for _, series := range s.Series {
		c.Allowed += series.Total.Allowed
		c.Denied += series.Total.Denied
	}
	return c
}

// silent returns the id of the process that is silent; "" if there is none, or more than one.
func (s fleetState) silent() (id string) {
	for _, p := range s.Processes {
		if _, pid, _ := strings.Cut(p.Name, "/"); p.Silent && id == "" {
			id = pid
		} else if p.Silent {
			return ""
		}
	}
	return id
}

func (s fleetState) firing(name string) bool {
	for _, a := range s.Alerts {
		if a.Name == name && a.State == "firing" {
			return true
		}
	}
	return false
}

// processesOnOnePage has three daemons on one Redis. The page of any of them shows what all have
// decided and what each has, and what rules in shadow would have denied in all. One that is stopped
// is an alert in one of the others until it goes on, one that is killed until another is started in
// its place, and one that ends in order is none.
func processesOnOnePage(t *testing.T, binary string) {
	redis := redistest.Start(t)
	config := write(t, "stint.yaml", `
failure: {mode: error, budget: 10s}
tiers:
  - {name: all, identity: user, limits: 20/1h}
  - {name: rest, identity: ip, limits: 1000000/1h}
policies:
  - {name: trial, match: {path: /trial}, limits: 2/1h, shadow: true}
`)
	start := func() *daemon {
		return launch(t, binary, "serve", "--store", redis.URL(), "--config", config,
			"--http", "127.0.0.1:0", "--drain", "0s")
	}
	all := []*daemon{start(), start(), start()}
	first, second, third := all[0], all[1], all[2]
	for _, d := range all {
		eventually.True(t, "it knows of all", func() bool { return len(d.fleet().Processes) == 3 })
	}
	client := newClient(t)
	for i := range 30 { // 20 are allowed
		if _, err := take(client, all[i%3].at(server.HTTP), "42", ""); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // 3 would be denied, all by the second
		second.post("/v1/take", `{"method":"GET","path":"/trial","peer":"192.0.2.1","claims":{"user":"7"}}`)
	}
	for _, d := range all {
		eventually.Nil(t, "its page shows all", func() error {
			s := d.fleet()
			var each observe.Counts
			for _, p := range s.Processes {
				each.Allowed += p.Total.Allowed
				each.Denied += p.Total.Denied
			}
			if got := s.total(); got.Allowed != 25 || got.Denied != 10 || each.Allowed != 25 || each.Denied != 10 {
				return fmt.Errorf("%+v of all, %+v of each; want 25 and 10", got, each)
			}
			return nil
		})
		eventually.Nil(t, "its shadow report counts all", func() error {
			var answer struct {
				Reports []observe.ShadowReport `json:"reports"`
			}
			_, body := d.get(server.Admin, "/api/shadow")
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				return err
			}
			for _, r := range answer.Reports {
				if r.Policy == "trial" && r.Total.Requests == 5 && r.Total.Denied == 3 {
					return nil
				}
			}
			return fmt.Errorf("got %s", body)
		})
		eventually.True(t, "its top has all denials", func() bool {
			_, body := d.get(server.Admin, "/api/top?by=user")
			return strings.Contains(body, `"denied":10,`)
		})
	}

	second.signal(syscall.SIGSTOP)
	alerts := func(some ...*daemon) (n int) {
		for _, d := range some {
			if d.fleet().firing("ProcessSilent") {
				n++
			}
		}
		return n
	}
	took := eventually.True(t, "a stopped process is one alert", func() bool {
		return alerts(first, third) == 1 && first.fleet().silent() == fmt.Sprint(second.cmd.Process.Pid)
	})
	t.Logf("stopped: an alert after %v", took)
	second.signal(syscall.SIGCONT)
	eventually.True(t, "it reports again", func() bool { return alerts(all...) == 0 && first.fleet().silent() == "" })

	third.signal(syscall.SIGKILL)
	took = eventually.True(t, "a killed process is one alert", func() bool { return alerts(first, second) == 1 })
	t.Logf("killed: an alert after %v", took)
	if s := first.fleet(); len(s.Processes) != 3 || s.total().Denied != 10 {
		t.Errorf("got %+v, want that what it has decided still counts", s)
	}
	second.signal(syscall.SIGTERM)
	eventually.True(t, "one that ends is gone", func() bool {
		s := first.fleet()
		return len(s.Processes) == 2 && s.silent() != "" && s.firing("ProcessSilent")
	})
	start()
	took = eventually.True(t, "another takes the place of the one that was killed", func() bool {
		s := first.fleet()
		return len(s.Processes) == 2 && s.silent() == "" && !s.firing("ProcessSilent")
	})
	t.Logf("replaced: the alert ends after %v", took)
	first.waitLogged("alert=ProcessSilent")
}
