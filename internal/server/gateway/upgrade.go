package gateway

import (
	"errors"
	"net"
	"sync"
)

var errClosed = errors.New("gateway: closed")

// upgrades tracks client connections that have switched to another protocol. Its zero value is
// ready to use.
type upgrades struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	closed  bool
	serving sync.WaitGroup
}

// add registers a connection, so that close closes it and waits for its handler. The handler must
// call remove when it ends. After close, add returns errClosed.
func (u *upgrades) add(conn net.Conn) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return errClosed
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[conn] = struct{}{}
	u.serving.Add(1)
	return nil
}

func (u *upgrades) remove(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, conn)
	u.serving.Done()
}

func (u *upgrades) close() {
	u.mu.Lock()
	u.closed = true
	for conn := range u.conns {
		conn.Close()
	}
	u.mu.Unlock()
	u.serving.Wait()
}
