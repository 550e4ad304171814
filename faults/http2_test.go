package faults

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
)

// Kinds of frames of HTTP/2, and flags of theirs.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameWindow = 0, 1, 3, 4, 6, 8

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4
)

// frame returns a frame of HTTP/2 as it is sent.
func frame(kind, flags byte, stream uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return string(b) + payload
}

// callHeader returns the header of a gRPC call without a token.
func callHeader(method string) string {
	var b strings.Builder
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "a"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		b.WriteByte(0) // a literal field that is in no table
		for _, text := range field {
			b.WriteByte(byte(len(text)))
			b.WriteString(text)
		}
	}
	return b.String()
}

// Parts of a window and of a frame that HTTP/2 allows without being asked, in bytes.
const (
	firstWindow = 65_535
	largeFrame  = 16 << 10
)

// hostileConn is a client of HTTP/2 without manners. It answers pings, so that it looks alive.
type hostileConn struct {
	conn net.Conn
	work sync.WaitGroup

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
	c := &hostileConn{conn: conn, calls: map[uint32]int{}}
	c.work.Go(c.read)
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, ""))
	return c, nil
}

// send sends what it can: the server may have closed the connection.
func (c *hostileConn) send(text string) { _, _ = io.WriteString(c.conn, text) }

// call begins a call with a message of so many bytes, all but the last of which it sends as soon as
// it may.
func (c *hostileConn) call(stream uint32, method string, size int) {
	prefix := "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(size)))
	first := min(size-1, firstWindow-len(prefix))
	c.begin(stream, size-1-first)
	c.send(frame(frameHeaders, flagEndHeaders, stream, callHeader(method)) + frame(frameData, 0, stream, prefix))
	c.data(stream, first)
}

// watch begins a call with an empty message, whose answer need not end.
func (c *hostileConn) watch(stream uint32, method string) {
	c.begin(stream, 0)
	c.send(frame(frameHeaders, flagEndHeaders, stream, callHeader(method)) +
		frame(frameData, flagEndStream, stream, "\x00\x00\x00\x00\x00"))
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

var junk = strings.Repeat("a", largeFrame)

func (c *hostileConn) data(stream uint32, size int) {
	for size > 0 {
		n := min(size, largeFrame)
		c.send(frame(frameData, 0, stream, junk[:n]))
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
	in := bufio.NewReader(c.conn)
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch kind, flags := head[3], head[4]; {
		case kind == framePing && flags&flagAck == 0:
			c.send(frame(framePing, flagAck, 0, string(payload)))
		case kind == frameReset, kind == frameHeaders && flags&flagEndStream != 0:
			c.mu.Lock()
			delete(c.calls, stream)
			c.mu.Unlock()
		case kind == frameWindow && stream != 0:
			c.mu.Lock()
			n := min(c.calls[stream], int(binary.BigEndian.Uint32(payload)))
			if n > 0 {
				c.calls[stream] -= n
			}
			c.mu.Unlock()
			c.data(stream, n)
		}
	}
}

func (c *hostileConn) close() {
	_ = c.conn.Close()
	c.work.Wait()
}
