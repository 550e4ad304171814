package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// What can go wrong in the demo, see --incident.
const (
	floodIncident  = "flood"
	outageIncident = "outage"
)

const (
	// incidentAfter is when it begins. By then the dashboard shows what is usual.
	incidentAfter = 20 * time.Second
	// outageLength is enough for the alert StoreDown to fire.
	outageLength = 90 * time.Second

	floodAddress = "203.0.113.200"
	floodRate    = 100 // requests a second
	floodWorkers = 20
)

// incident is what goes wrong, and when.
type incident struct {
	kind     string // "" if nothing does
	from, to time.Time
	redis    *detour // the way to Redis, for an outage
}

// guide returns what will happen, and where to look. Program and flags are those of commands.
func (i *incident) guide(program, flags, dashboard string) string {
	at := i.from.Format(time.TimeOnly)
	switch i.kind {
	case floodIncident:
		return fmt.Sprintf(`
Incident   at %[1]s a flood begins: %[2]s sends %[3]d requests a second, until the demo ends

  %[4]s/#/overview    what the page says about it
  %[4]s/#/offenders   who it is, and Ban
  %[5]s ban ip:%[2]s --for 10m%[6]s
`, at, floodAddress, floodRate, dashboard, program, flags)
	case outageIncident:
		return fmt.Sprintf(`
Incident   at %[1]s Redis goes away, and at %[2]s it comes back%[3]s
           Requests are still decided, by local limits, and their answers say degraded.

  %[4]s/#/overview    the store, its breaker, and the alert StoreDown after 60 s
  %[5]s doctor%[6]s
`, at, i.to.Format(time.TimeOnly), i.redis.note, dashboard, program, flags)
	}
	return ""
}

// happen lets it happen, and says so.
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
	i.redis.cut(true)
	err := say("Redis is away")
	if pause(ctx, time.Until(i.to)); ctx.Err() != nil {
		return err
	}
	i.redis.cut(false)
	return errors.Join(err, say("Redis is back"))
}

// flood makes many requests from one address until the context ends.
func (c *demoTraffic) flood(ctx context.Context) {
	var work sync.WaitGroup
	for range floodWorkers {
		work.Go(func() {
			for ctx.Err() == nil {
				// the dashboard shows the result
				_ = call(ctx, &c.http, http.MethodGet, c.url+"/api/pdb/4hhb", from(floodAddress))
				pause(ctx, floodWorkers*time.Second/floodRate)
			}
		})
	}
	work.Wait()
}

// detour is a way to a Redis that can be cut, as a cable can.
type detour struct {
	url  string // by this way
	note string // for the guide

	network, address string // of the Redis
	process          *exec.Cmd
	listener         net.Listener
	work             sync.WaitGroup

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

var errOutageStore = errors.New("--incident outage: want --store with the redis:// URL of one server, " +
	"or none if redis-server is installed")

// openDetour returns the way to the Redis of a URL. If the store is in memory, which cannot go
// away, it starts a redis-server that works in a directory and keeps nothing.
func openDetour(directory, store string) (*detour, error) {
	d := &detour{conns: map[net.Conn]bool{}}
	where := &url.URL{Scheme: "redis"}
	if store == memoryStore {
		if err := d.start(directory); err != nil {
			return nil, err
		}
		d.note = " (a redis-server of the demo's own)"
	} else {
		var err error
		where, err = url.Parse(store)
		if err != nil || where.Scheme != "redis" || where.Query().Has("addr") || where.Query().Has("master_set") {
			return nil, errOutageStore // without the URL, which may have a password
		}
		port := where.Port()
		if port == "" {
			port = "6379"
		}
		d.network, d.address = "tcp", net.JoinHostPort(where.Hostname(), port)
		d.note = " (for the demo: " + d.address + " itself is not touched)"
	}
	var err error
	if d.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, d.close())
	}
	where.Host = d.listener.Addr().String()
	d.url = where.String()
	d.work.Go(d.accept)
	return d, nil
}

// start runs a redis-server, and returns when it accepts connections.
func (d *detour) start(directory string) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return errOutageStore
	}
	d.network, d.address = "unix", filepath.Join(directory, "redis.sock")
	log := filepath.Join(directory, "redis.log")
	d.process = exec.Command(program, "--port", "0", "--unixsocket", d.address, "--save", "", "--dir", directory,
		"--logfile", log)
	if err := d.process.Start(); err != nil {
		return err
	}
	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial(d.network, d.address); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	text, _ := os.ReadFile(log)
	return errors.Join(fmt.Errorf("redis-server does not start: %w: %s", err, text), d.close())
}

// accept passes connections on until the listener is closed.
func (d *detour) accept() {
	for {
		here, err := d.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial(d.network, d.address)
		if err != nil || !d.keep(here, there) {
			_ = here.Close() // as a Redis that is away does
			continue
		}
		d.work.Go(func() { d.pass(here, there) })
		d.work.Go(func() { d.pass(there, here) })
	}
}

// keep remembers both ends of a connection. It closes the far one if there is an outage.
func (d *detour) keep(here, there net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		_ = there.Close() // nothing was sent
		return false
	}
	d.conns[here], d.conns[there] = true, true
	return true
}

// pass copies one direction of a connection, and ends both with it.
func (d *detour) pass(from, to net.Conn) {
	_, _ = io.Copy(to, from) // it ends when one of them is closed
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range []net.Conn{from, to} {
		_ = conn.Close() // maybe for the second time
		delete(d.conns, conn)
	}
}

// cut begins or ends an outage.
func (d *detour) cut(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
	if down {
		for conn := range d.conns {
			_ = conn.Close() // pass sees it
		}
	}
}

func (d *detour) close() error {
	var err error
	if d.listener != nil {
		err = d.listener.Close()
		d.cut(true)
		d.work.Wait()
	}
	if d.process != nil {
		_ = d.process.Process.Kill() // it has nothing to keep, and may have ended by the same signal
		_ = d.process.Wait()         // which says that it was killed
	}
	return err
}
