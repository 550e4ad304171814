package server

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// preface is what a client of HTTP/2 says first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Kinds of frames, and flags of theirs.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing = 0, 1, 3, 4, 6

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4
)

// frame returns a frame as it is sent.
func frame(kind, flags byte, stream uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return string(b) + payload
}

// literal returns a header field that is in no table. Neither part may be longer than 126 bytes.
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// callHeader returns the header of a gRPC call.
func callHeader(method string) string {
	return literal(":method", "POST") + literal(":scheme", "http") + literal(":path", method) +
		literal(":authority", "a") + literal("content-type", "application/grpc") + literal("te", "trailers")
}

// http2Client is a client that sends anything, and answers pings.
type http2Client struct {
	t    *testing.T
	conn net.Conn
}

func dialHTTP2(t *testing.T, to net.Addr) *http2Client {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &http2Client{t, conn}
	c.send(preface + frame(frameSettings, 0, 0, ""))
	return c
}

func (c *http2Client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// ended waits until so many streams have ended, and returns how many have.
func (c *http2Client) ended(want int) int {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	in := bufio.NewReader(c.conn)
	streams := map[uint32]bool{}
	for len(streams) < want {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			break
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(in, payload); err != nil {
			break
		}
		switch kind, flags := head[3], head[4]; {
		case kind == framePing && flags&flagAck == 0:
			c.send(frame(framePing, flagAck, 0, string(payload)))
		case kind == frameReset, kind == frameHeaders && flags&flagEndStream != 0:
			streams[binary.BigEndian.Uint32(head[5:])] = true
		}
	}
	return len(streams)
}
