package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestF48Unsent: the kernel takes only a little of a response ahead of the client, on connections
// as the listener makes them. Otherwise a client that is slow and steady would look as if it took
// nothing.
func TestF48Unsent(t *testing.T) {
	a, c := newAuthority(t), everywhere(t)
	a.secure(&c)
	for name, c := range map[string]Config{"http": everywhere(t), "https": c} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c)
			unsent := make(chan int, 1)
			on := r.newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				unsent <- unsentOf(t, conn)
			}), true)
			if err := r.open(t.Context(), &on, anywhere); err != nil {
				t.Fatal(err)
			}
			go on.serve(on.listener)
			t.Cleanup(on.discard)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.client("")}}
			if _, err := client.Get(name + "://" + on.listener.Addr().String()); err == nil {
				t.Error("there is an answer")
			}
			if got := <-unsent; got < 1 || got > 1<<20 { // 0 is any number
				t.Errorf("the kernel takes %d bytes", got)
			}
		})
	}
}

// unsentOf is how many bytes the kernel takes ahead of the client.
func unsentOf(t *testing.T, conn net.Conn) (n int) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := raw.Control(func(fd uintptr) {
		n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); err != nil {
		t.Error(err)
	}
	return n
}
