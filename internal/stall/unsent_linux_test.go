package stall

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of what a client does not read, the kernel takes little; on its own it takes megabytes.
func TestLimitUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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
