package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

type client struct {
	net.Conn
	r *bufio.Reader
}

func dialProxy(t testing.TB, p *Proxy) *client {
	t.Helper()
	conn := testkit.Opened(net.Dial("tcp", p.Addr()))(t)
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
	testkit.Must(io.WriteString(c, encode(commands...)))(t)
}

func (c *client) wantClosed(t testing.TB) {
	t.Helper()
	reply, err := readReply(c.r)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, %v, want a closed connection", reply, err)
	}
}

// The proxy matches replies to requests by counting. So it must count a reply of any type as one,
// and must not count pushes.
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
	c.wantClosed(t) // the reply NOSCRIPT was dropped
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
