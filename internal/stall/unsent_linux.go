package stall

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is enough to keep the network from waiting for this process.
const maxUnsent = 128 << 10

// LimitUnsent keeps the kernel from buffering more of a response than the client can read soon.
// Otherwise it takes megabytes, and then nothing until a third of them is gone: a client that reads
// 100 KB a second would look stuck for half a minute. A connection that is not TCP stays as it is.
func LimitUnsent(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	socket, ok := c.(syscall.Conn) // listeners wrap their connections
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // it is closed
	}
	// Without it, slow clients are cut off too early; everything else works.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT,
			maxUnsent)
	})
}
