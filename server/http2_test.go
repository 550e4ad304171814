package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/stint-limiter/stint/internal/http2test"
)

// frames returns frames as they are sent.
func frames(write func(f *http2.Framer) error) string {
	var b strings.Builder
	_ = write(http2.NewFramer(&b, nil)) // a builder takes all
	return b.String()
}

// http2Client is a client that sends anything, and answers pings.
type http2Client struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
}

func dialHTTP2(t *testing.T, to net.Addr) *http2Client {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &http2Client{t, conn, http2.NewFramer(conn, conn)}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.sent(c.WriteSettings())
	return c
}

func (c *http2Client) sent(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// call begins a gRPC call.
func (c *http2Client) call(stream uint32, method string) {
	c.t.Helper()
	c.sent(c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: http2test.CallHeader(method), EndHeaders: true,
	}))
}

// ended waits until so many streams have ended, and returns how many have.
func (c *http2Client) ended(want int) int {
	c.t.Helper()
	c.sent(c.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	streams := map[uint32]bool{}
	for len(streams) < want {
		frame, err := c.ReadFrame()
		if err != nil {
			break
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				c.sent(c.WritePing(true, f.Data))
			}
		case *http2.RSTStreamFrame:
			streams[f.StreamID] = true
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				streams[f.StreamID] = true
			}
		}
	}
	return len(streams)
}
