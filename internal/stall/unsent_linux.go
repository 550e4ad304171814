package stall

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is the number of unsent bytes at which the kernel stops accepting more. It is large
// enough to keep the network busy.
const maxUnsent = 128 << 10

// LimitUnsent keeps the kernel from buffering more of a response than the client can read soon.
// Otherwise the kernel buffers megabytes, and then accepts nothing until a third of that has been
// sent: a client that reads 100 KB per second would look stuck for half a minute. LimitUnsent does
// nothing to a connection that is not TCP.
func LimitUnsent(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	socket, ok := c.(syscall.Conn) // not *net.TCPConn: a listener may wrap its connections
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	// Ignore an error: without the option, slow clients are cut off too early, but nothing else
	// changes.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT,
			maxUnsent)
	})
}
