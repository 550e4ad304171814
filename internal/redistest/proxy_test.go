package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A script that counts, and two commands that are none.
var (
	incr = []string{"EVAL", "return tostring(redis.call('INCR', 'n'))", "0"}
	ping = []string{"PING"}
	get  = []string{"GET", "n"}
)

// client is one connection through a proxy.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dialProxy(t testing.TB, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{conn, bufio.NewReader(conn)}
	c.patience(t, startTimeout)
	return c
}

func (c *client) patience(t testing.TB, d time.Duration) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
}

func (c *client) send(t testing.TB, commands ...[]string) {
	t.Helper()
	if _, err := io.WriteString(c, encode(commands...)); err != nil {
		t.Fatal(err)
	}
}

func (c *client) want(t testing.TB, replies ...string) {
	t.Helper()
	for i, want := range replies {
		reply, err := readReply(c.r)
		if got := text(reply); err != nil || got != want {
			t.Fatalf("reply %d: got %q, %v, want %q", i, got, err, want)
		}
	}
}

func (c *client) wantClosed(t testing.TB) {
	t.Helper()
	reply, err := readReply(c.r)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, %v, want a closed connection", reply, err)
	}
}

func (c *client) wantNothingYet(t testing.TB) {
	t.Helper()
	c.patience(t, 50*time.Millisecond)
	if got, err := c.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %q, %v, want nothing yet", got, err)
	}
	c.patience(t, startTimeout)
}

func wantOpen(t *testing.T, p *Proxy, want int) {
	t.Helper()
	await(t, "connections are closed", func() error {
		if got := p.Open(); got != want {
			return fmt.Errorf("%d are open, want %d", got, want)
		}
		return nil
	})
}

func TestProxyPassesEverything(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	if got, want := p.URL(), "redis://"+p.Addr(); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
	a, b := dialProxy(t, p), dialProxy(t, p)
	large := strings.Repeat("\r\n$-1\x00\xff", 1<<17)
	a.send(t, []string{"SET", "a", large}, []string{"GET", "a"}, []string{"MGET", "a", "none"},
		[]string{"NONSENSE", "x"})
	a.want(t, "OK", large, large+"\n", "ERR unknown command 'NONSENSE', with args beginning with: 'x' ")
	b.send(t, ping)
	b.want(t, "PONG")
	if got, want := p.Dials(), 2; got != want {
		t.Errorf("Dials: got %d, want %d", got, want)
	}
	if got, want := p.Open(), 2; got != want {
		t.Errorf("Open: got %d, want %d", got, want)
	}
	a.Close()
	wantOpen(t, p, 1)
	s.Kill()
	b.wantClosed(t)
	wantOpen(t, p, 0)
	dialProxy(t, p).wantClosed(t)
	if got, want := p.Dials(), 3; got != want {
		t.Errorf("Dials: got %d, want %d", got, want)
	}
}

func TestProxyLatency(t *testing.T) {
	p := StartProxy(t, Start(t).Addr())
	c := dialProxy(t, p)
	const latency = 3 * time.Millisecond
	p.SetLatency(latency, 0)
	least := time.Hour
	for range 100 {
		start := time.Now()
		c.send(t, ping)
		c.want(t, "PONG")
		took := time.Since(start)
		if took < latency {
			t.Fatalf("a round trip took %v, want at least %v", took, latency)
		}
		least = min(least, took)
	}
	// Only the fastest is a property of the proxy; the others show how busy the machine is.
	if runtime.GOOS == "linux" && least > latency+600*time.Microsecond {
		t.Errorf("the fastest round trip took %v, want little more than %v", least, latency)
	}

	p.SetLatency(time.Hour, 0)
	c.send(t, ping)
	c.wantNothingYet(t)
	p.SetLatency(0, 0) // also for what is on its way
	c.want(t, "PONG")
}

func TestProxyCut(t *testing.T) {
	p := StartProxy(t, Start(t).Addr())
	addr := p.Addr()
	for range 3 {
		c := dialProxy(t, p)
		c.send(t, ping)
		c.want(t, "PONG")
		p.Cut()
		c.wantClosed(t)
		wantOpen(t, p, 0)
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial while cut: got %v, want refused", err)
		}
		p.Restore()
	}
	c := dialProxy(t, p)
	c.send(t, ping)
	c.want(t, "PONG")
	if got, want := p.Dials(), 4; got != want {
		t.Errorf("Dials: got %d, want %d", got, want)
	}
}

func TestProxySilence(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	old := dialProxy(t, p)
	old.send(t, ping)
	old.want(t, "PONG")
	p.Silence()
	old.send(t, incr)
	fresh, gone := dialProxy(t, p), dialProxy(t, p)
	fresh.send(t, ping)
	gone.send(t, incr)
	gone.Close()
	old.wantNothingYet(t)
	fresh.wantNothingYet(t)
	if got, want := s.CLI(t, get...), ""; got != want {
		t.Errorf("counted %q in the silence", got)
	}
	p.Restore()
	fresh.want(t, "PONG")
	if reply, err := readReply(old.r); err != nil {
		t.Errorf("after Restore: %v, %v", reply, err)
	}
	await(t, "the request of a client that has gone is run", func() error {
		if got, want := s.CLI(t, get...), "2"; got != want {
			return fmt.Errorf("counted %s, want %s", got, want)
		}
		return nil
	})
	wantOpen(t, p, 2)
}

func TestProxyDropsRequests(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := dialProxy(t, p)
	p.DropNext(Requests, 1)
	c.send(t, ping, get, incr, ping, incr)
	c.want(t, "PONG", "") // those before it are answered
	c.wantClosed(t)
	if got, want := s.CLI(t, get...), ""; got != want {
		t.Errorf("counted %q, want nothing", got)
	}

	c = dialProxy(t, p)
	c.send(t, incr)
	c.want(t, "1")
	p.DropRequests(1)
	c.send(t, ping, incr)
	c.want(t, "PONG")
	c.wantClosed(t)
	p.DropRequests(0)
	c = dialProxy(t, p)
	c.send(t, incr)
	c.want(t, "2")
}

func TestProxyDropsReplies(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := dialProxy(t, p)
	p.DropNext(Replies, 1)
	c.send(t, ping, incr, ping)
	c.want(t, "PONG")
	c.wantClosed(t)
	if got, want := s.CLI(t, get...), "1"; got != want {
		t.Errorf("counted %q, want %s", got, want)
	}

	p.DropReplies(0.5)
	dropped := 0
	const n = 200
	for range n {
		c := dialProxy(t, p)
		c.send(t, ping, incr)
		c.want(t, "PONG")
		if _, err := readReply(c.r); err != nil {
			dropped++
		}
		c.Close()
	}
	if dropped < n/4 || dropped > 3*n/4 {
		t.Errorf("%d of %d were dropped, want half", dropped, n)
	}
	if got, want := s.CLI(t, get...), strconv.Itoa(n+1); got != want {
		t.Errorf("counted %q, want %s", got, want)
	}
}

// Replies are told apart by counting, so nothing that comes between them may count: pushes, and
// replies of every type.
func TestProxyTellsRepliesApart(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := dialProxy(t, p)
	c.send(t, []string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"}, []string{"GET", "watched"},
		[]string{"SUBSCRIBE", "a", "b"}, []string{"HGETALL", "none"}, []string{"SMEMBERS", "none"})
	next := func(want string) {
		t.Helper()
		got, err := readMessage(c.r)
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	for _, want := range []string{
		"%7\r\n", "+OK\r\n", "_\r\n", ">3\r\n$9\r\nsubscribe", ">3\r\n$9\r\nsubscribe", "%0\r\n", "~0\r\n",
	} {
		next(want)
	}
	s.CLI(t, "PUBLISH", "a", "hello")
	s.CLI(t, "SET", "watched", "1")
	next(">3\r\n$7\r\nmessage")
	next(">2\r\n$10\r\ninvalidate")
	p.DropNext(Replies, 1)
	c.send(t, []string{"GET", "watched"}, []string{"SET", "watched", "2"}, []string{"EXISTS", "n"},
		[]string{"evalsha", strings.Repeat("0", 40), "0"})
	next("$1\r\n")
	next("+OK\r\n")
	next(">2\r\n$10\r\ninvalidate")
	next(":0\r\n")
	c.wantClosed(t) // NOSCRIPT was the reply to drop
}

func TestProxyLeavesNothingBehind(t *testing.T) {
	s := Start(t)
	before := runtime.NumGoroutine()
	t.Run("proxy", func(t *testing.T) {
		p := StartProxy(t, s.Addr())
		for i := range 20 {
			c := dialProxy(t, p)
			c.send(t, ping)
			c.want(t, "PONG")
			if i%2 == 0 {
				c.Close()
			}
		}
		p.SetLatency(time.Hour, time.Hour)
		dialProxy(t, p).send(t, ping)
		p.Silence()
		dialProxy(t, p).send(t, ping)
	})
	CheckGoroutines(t, before)
}

func TestReadMessage(t *testing.T) {
	for _, message := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n",
		"$0\r\n\r\n", "$4\r\n\r\n\r\n\r\n", "$-1\r\n", "=7\r\ntxt:a\r\n\r\n", "!3\r\nERR\r\n",
		"*0\r\n", "*-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n_\r\n", "~1\r\n:1\r\n", ">2\r\n+a\r\n+b\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "|1\r\n+ttl\r\n:1\r\n+OK\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(message + "+NEXT\r\n"))
		if got, err := readMessage(r); err != nil || string(got) != message {
			t.Errorf("got %q, %v, want %q", got, err, message)
		}
		if got, err := readMessage(r); err != nil || string(got) != "+NEXT\r\n" {
			t.Errorf("after %q: got %q, %v", message, got, err)
		}
		for n := range len(message) {
			got, err := readMessage(bufio.NewReader(strings.NewReader(message[:n])))
			if !errors.Is(err, io.EOF) || string(got) != message[:n] {
				t.Errorf("the first %d bytes of %q: got %q, %v, want them and the end", n, message, got, err)
			}
		}
	}
	for _, other := range []string{"\x16\x03\x01", "PING\r\n", "*x\r\n", "$?\r\n", "*1\r\nx\r\n", "+\n"} {
		r := bufio.NewReader(strings.NewReader(other))
		got, err := readMessage(r)
		rest, _ := io.ReadAll(r)
		if !errors.Is(err, errNotRESP) || !bytes.Equal(append(got, rest...), []byte(other)) {
			t.Errorf("%q: got %q and %q, %v", other, got, rest, err)
		}
	}
}

func BenchmarkProxy(b *testing.B) {
	for _, latency := range []time.Duration{0, time.Millisecond, 2500 * time.Microsecond} {
		b.Run(latency.String(), func(b *testing.B) {
			p := StartProxy(b, Start(b).Addr())
			c := dialProxy(b, p)
			p.SetLatency(latency, 0)
			for b.Loop() {
				c.send(b, ping)
				c.want(b, "PONG")
			}
		})
	}
}
