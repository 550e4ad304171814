package stall

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-limiter/stint/internal/testkit"
)

// Of what a client does not read, the kernel takes little; on its own it takes megabytes.
func TestLimitUnsent(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	client := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	LimitUnsent(conn)
	for err == nil {
		conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		_, err = conn.Write(make([]byte, 32<<10))
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var waiting int
	raw.Control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	if err != nil || waiting > 4*maxUnsent {
		t.Errorf("%d bytes wait to be sent, want %d or not much more; %v", waiting, maxUnsent, err)
	}
}
