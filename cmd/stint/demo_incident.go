package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	floodIncident  = "flood"
	outageIncident = "outage"
)

const (
	// incidentAfter is the delay before an incident. By then the dashboard shows normal traffic.
	incidentAfter = 20 * time.Second
	// outageLength is the duration of an outage. It is long enough for the alert StoreDown to fire.
	outageLength = 90 * time.Second

	floodAddress = "203.0.113.200"
	floodRate    = 100 // requests a second
	floodWorkers = 20
)

type incident struct {
	kind     string // "" for no incident
	from, to time.Time
	redis    demoRedis // used only in an outage
}

func (i *incident) guide(dashboard string) string {
	at := i.from.Format(time.TimeOnly)
	switch i.kind {
	case floodIncident:
		return fmt.Sprintf(`
Incident   at %[1]s a flood begins: %[2]s sends %[3]d requests a second, until the demo ends

  %[4]s/#/overview    how the dashboard reports it
  %[4]s/#/offenders   the address, with a button to ban it
`, at, floodAddress, floodRate, dashboard)
	case outageIncident:
		return fmt.Sprintf(`
Incident   at %[1]s the demo's Redis is killed, and at %[2]s it is started again
           Requests are still decided, by local limits, and their responses are marked as degraded.

  %[3]s/#/overview    the store, its breaker, and the alert StoreDown after 60 s
`, at, i.to.Format(time.TimeOnly), dashboard)
	}
	return ""
}

func (i *incident) happen(ctx context.Context, s *system, traffic *demoTraffic) error {
	say := func(what string) error {
		return s.print(fmt.Appendf(nil, "%s  %s\n", time.Now().Format(time.TimeOnly), what))
	}
	if i.kind == "" {
		return nil
	}
	if pause(ctx, time.Until(i.from)); ctx.Err() != nil {
		return nil
	}
	if i.kind == floodIncident {
		err := say("the flood begins")
		traffic.flood(ctx)
		return err
	}
	i.redis.kill()
	err := say("Redis is down")
	if pause(ctx, time.Until(i.to)); ctx.Err() != nil {
		return err
	}
	if err := i.redis.start(); err != nil {
		return err
	}
	return errors.Join(err, say("Redis is back"))
}

func (c *demoTraffic) flood(ctx context.Context) {
	var work sync.WaitGroup
	for range floodWorkers {
		work.Go(func() {
			for ctx.Err() == nil {
				// Ignore the error: the dashboard shows the result.
				_ = call(ctx, &c.http, http.MethodGet, c.url+"/api/pdb/4hhb", from(floodAddress))
				pause(ctx, floodWorkers*time.Second/floodRate)
			}
		})
	}
	work.Wait()
}

// demoRedis is a redis-server that the demo starts, kills and starts again. It does not persist
// data.
type demoRedis struct {
	directory string
	process   *exec.Cmd // nil while the server is down
}

func (r *demoRedis) socket() string { return filepath.Join(r.directory, "redis.sock") }

// start starts the server and returns when it accepts connections.
func (r *demoRedis) start() error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("--incident outage: redis-server not found; install it, so that the demo can start and stop it")
	}
	log := filepath.Join(r.directory, "redis.log")
	r.process = exec.Command(program, "--port", "0", "--unixsocket", r.socket(), "--save", "", "--dir", r.directory,
		"--logfile", log)
	if err := r.process.Start(); err != nil {
		r.process = nil
		return err
	}
	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial("unix", r.socket()); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.kill()
	text, _ := os.ReadFile(log) // empty if there is no log
	return fmt.Errorf("redis-server did not start: %w: %s", err, text)
}

func (r *demoRedis) kill() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill() // fails if the signal that ended the demo has also ended Redis
	_ = r.process.Wait()         // returns an error because the process was killed
	r.process = nil
}
