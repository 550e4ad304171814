package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

func TestF48(t *testing.T) {
	fault(t, "F48", "slow readers and slow bodies under a concurrency limit", "bounded in time; others are served", func(r *report) {
		redis := redistest.Start(t)
		p := newPeers(r, redis.URL(), 2*time.Second)
		began := time.Now()
		for i := range p.places {
			if i%2 == 0 {
				p.stall()
			} else {
				p.trickle()
			}
		}
		testkit.Eventually(t, "slow peers have places", func() bool { // on a busy machine perhaps not all
			return int(p.begun.Load()) == p.places || p.begun.Load() > 0 && time.Since(began) > p.bound/2
		})
		slow, denied := p.begun.Load(), p.get("/limited") == http.StatusTooManyRequests
		testkit.Eventually(t, "others are served", func() bool { return p.get("/limited") == http.StatusOK })
		r.within(fmt.Sprintf("%d of %d places taken by slow peers, %s allowed: others denied %v, served after", slow, p.places, short(p.bound), denied),
			time.Since(began), 2*p.bound)
		testkit.Eventually(t, "every slow peer is cut off", func() bool { return p.ended.Load() == p.begun.Load() })
		r.within("all places free after", time.Since(began), 2*p.bound)

		var honest sync.WaitGroup
		for _, of := range []struct {
			what string
			do   func() error
		}{
			{"an event stream that is idle", p.events}, {"a websocket that is idle", p.socket},
			{"a slow and steady download", p.download}, {"a slow and steady upload", p.upload},
		} {
			honest.Go(func() {
				if err := of.do(); err != nil {
					r.Errorf("%s: %v", of.what, err)
				}
			})
		}
		honest.Wait()
		r.saw("idle streams and websockets and steady transfers of %s go on", short(2*p.bound))
		wantTTLs(r, redis)
	})
}

// peers are the clients of a gateway.
type peers struct {
	*report
	addr   string
	bound  time.Duration // after which a peer is too slow
	places int
	client *http.Client

	begun, ended atomic.Int32 // the upstream's requests of slow peers
}

func newPeers(r *report, store string, bound time.Duration) *peers {
	r.Helper()
	p := &peers{report: r, bound: bound, places: 6,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	upstream := httptest.NewServer(http.HandlerFunc(p.upstream))
	r.Cleanup(upstream.Close)
	file := filepath.Join(r.TempDir(), "stint.yaml")
	text := fmt.Sprintf(`
tiers: [{name: all, identity: ip, limits: 1000000/1m}]
policies: [{name: places, match: {path: /limited/**}, identity: everyone, limits: %d/1h concurrency}]
gateway: {routes: [{upstream: "%s"}], send_timeout: %v, body_timeout: %v}
`, p.places, upstream.URL, bound, bound)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	s, err := server.New(server.Config{
		HTTP: "127.0.0.1:0", Policies: file, Store: store, Logger: slog.New(slog.DiscardHandler),
		Gateway: &config.Gateway{},
	})
	if err != nil {
		r.Fatal(err)
	}
	if err := s.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			r.Error(err)
		}
	})
	p.addr = s.Addr(server.HTTP).String()
	testkit.Eventually(r, "Redis decides", func() bool {
		resp, err := p.client.Get("http://" + p.addr + "/limited")
		if err != nil {
			r.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK && resp.Header.Get("X-RateLimit-Degraded") == ""
	})
	return p
}

// upstream is the application.
func (p *peers) upstream(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/limited/") {
		p.begun.Add(1)
		defer p.ended.Add(1)
	}
	piece := make([]byte, 32<<10)
	switch {
	case strings.HasSuffix(r.URL.Path, "/endless"):
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case r.URL.Path == "/download":
		for range download / len(piece) {
			w.Write(piece)
		}
	case r.URL.Path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: event\n\n")
		http.NewResponseController(w).Flush()
		time.Sleep(2 * p.bound)
		io.WriteString(w, "data: event\n\n")
	case r.Header.Get("Upgrade") != "":
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.Copy(conn, buffer)
	default:
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}
}

// dial returns a connection that is closed with the test.
func (p *peers) dial() net.Conn {
	p.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	return conn
}

// stall asks for a large response and reads none of it.
func (p *peers) stall() {
	p.Helper()
	io.WriteString(p.dial(), "GET /limited/endless HTTP/1.1\r\nHost: x\r\n\r\n")
}

// trickle sends a body of a byte at a time, often enough not to be silent, until it is cut off.
func (p *peers) trickle() {
	p.Helper()
	conn := p.dial()
	io.WriteString(conn, "POST /limited/body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		for {
			if _, err := io.WriteString(conn, "x"); err != nil {
				return
			}
			time.Sleep(p.bound / 4)
		}
	}()
}

// get returns the status of a request.
func (p *peers) get(path string) int {
	resp, err := p.client.Get("http://" + p.addr + path)
	if err != nil {
		p.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (p *peers) events() error {
	resp, err := p.client.Get("http://" + p.addr + "/events")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && strings.Count(string(got), "data: event") != 2 {
		err = fmt.Errorf("got %q", got)
	}
	return err
}

func (p *peers) socket() error {
	conn := p.dial()
	io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("got %v, %w", resp, err)
	}
	time.Sleep(2 * p.bound)
	io.WriteString(conn, "hello\n")
	if got, err := answers.ReadString('\n'); got != "hello\n" {
		return fmt.Errorf("after a pause: got %q, %w", got, err)
	}
	return nil
}

// download is how large the one is that takes twice as long as a peer may be silent.
const download = 8 << 20

func (p *peers) download() error {
	resp, err := p.client.Get("http://" + p.addr + "/download")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for total := int64(0); ; time.Sleep(p.bound / 16) {
		n, err := io.CopyN(io.Discard, resp.Body, download/32)
		if total += n; total == download {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", total, err)
		}
	}
}

func (p *peers) upload() error {
	in, out := io.Pipe()
	go func() {
		for range 32 {
			time.Sleep(p.bound / 16)
			if _, err := out.Write(make([]byte, 4<<10)); err != nil {
				return
			}
		}
		out.Close()
	}()
	resp, err := p.client.Post("http://"+p.addr+"/upload", "application/octet-stream", in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(got) != fmt.Sprint(32*4<<10) {
		return fmt.Errorf("got %d %s %w", resp.StatusCode, got, err)
	}
	return nil
}
