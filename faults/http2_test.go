package faults

import (
	"encoding/binary"
	"net"
	"sync"

	"golang.org/x/net/http2"

	"github.com/stint-limiter/stint/internal/testkit"
)

// Parts of a window and of a frame that HTTP/2 allows without being asked, in bytes.
const (
	firstWindow = 65_535
	largeFrame  = 16 << 10
)

// hostileConn is a client of HTTP/2 without manners. It answers pings, so that it looks alive.
type hostileConn struct {
	conn net.Conn
	work sync.WaitGroup

	sending sync.Mutex
	framer  *http2.Framer

	mu sync.Mutex
	// calls are those under way, each with how many bytes of its message wait for the server to
	// allow them.
	calls map[uint32]int
}

func dialHostile(address string) (*hostileConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &hostileConn{conn: conn, framer: http2.NewFramer(conn, conn), calls: map[uint32]int{}}
	_, _ = conn.Write([]byte(http2.ClientPreface)) // as for send
	c.send(func(f *http2.Framer) error { return f.WriteSettings() })
	c.work.Go(c.read)
	return c, nil
}

// send sends what it can: the server may have closed the connection.
func (c *hostileConn) send(write func(*http2.Framer) error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = write(c.framer)
}

func (c *hostileConn) sendHeader(stream uint32, method string) {
	c.send(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: testkit.HTTP2CallHeader(method), EndHeaders: true,
		})
	})
}

func (c *hostileConn) sendData(stream uint32, end bool, data []byte) {
	c.send(func(f *http2.Framer) error { return f.WriteData(stream, end, data) })
}

// call begins a call with a message of so many bytes, all but the last of which it sends as soon as
// it may.
func (c *hostileConn) call(stream uint32, method string, size int) {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	first := min(size-1, firstWindow-len(prefix))
	c.begin(stream, size-1-first)
	c.sendHeader(stream, method)
	c.sendData(stream, false, prefix)
	c.data(stream, first)
}

// watch begins a call with an empty message, whose answer need not end.
func (c *hostileConn) watch(stream uint32, method string) {
	c.begin(stream, 0)
	c.sendHeader(stream, method)
	c.sendData(stream, true, make([]byte, 5))
}

func (c *hostileConn) begin(stream uint32, rest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls != nil {
		c.calls[stream] = rest
	}
}

// held is how many calls the server has not ended.
func (c *hostileConn) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

var junk = make([]byte, largeFrame)

func (c *hostileConn) data(stream uint32, size int) {
	for size > 0 {
		n := min(size, largeFrame)
		c.sendData(stream, false, junk[:n])
		size -= n
	}
}

// read takes what the server sends until the connection ends, and all of its calls with it.
func (c *hostileConn) read() {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = nil
	}()
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				c.send(func(to *http2.Framer) error { return to.WritePing(true, f.Data) })
			}
		case *http2.RSTStreamFrame:
			c.end(f.StreamID)
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				c.end(f.StreamID)
			}
		case *http2.WindowUpdateFrame:
			c.mu.Lock()
			n := min(c.calls[f.StreamID], int(f.Increment))
			if n > 0 {
				c.calls[f.StreamID] -= n
			}
			c.mu.Unlock()
			c.data(f.StreamID, n)
		}
	}
}

func (c *hostileConn) end(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, stream)
}

func (c *hostileConn) close() {
	_ = c.conn.Close()
	c.work.Wait()
}
