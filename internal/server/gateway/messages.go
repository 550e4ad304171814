package gateway

import (
	"encoding/binary"
	"strings"
)

// messages tracks the messages in the body of a gRPC request. Each message begins with five bytes
// that include its length. Between two messages, a client may be silent for any length of time. A
// nil *messages tracks nothing.
type messages struct {
	head [5]byte
	read int   // bytes of the head read so far
	rest int64 // bytes of the message still to read, without the head
}

// between reports whether no message is in progress. It returns false if m is nil.
func (m *messages) between() bool { return m != nil && m.read == 0 }

func (m *messages) note(data []byte) {
	for m != nil && len(data) > 0 {
		if m.read < len(m.head) {
			n := copy(m.head[m.read:], data)
			m.read, data = m.read+n, data[n:]
			if m.read < len(m.head) {
				return
			}
			m.rest = int64(binary.BigEndian.Uint32(m.head[1:]))
		}
		n := min(m.rest, int64(len(data)))
		m.rest, data = m.rest-n, data[n:]
		if m.rest == 0 {
			m.read = 0
		}
	}
}

// isGRPC reports whether a body of the given media type consists of gRPC messages. It returns false
// for gRPC-Web, whose bodies are not streams.
func isGRPC(media string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(media), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
