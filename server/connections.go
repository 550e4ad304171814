package server

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/stint-limiter/stint/internal/seldom"
)

// connections is a listener with a bounded number of connections. One more is closed at once: to let it wait would
// have its client wait for an answer that nobody gives.
//
// There is no bound for each address: Envoys behind one NAT, and all clients of a gateway behind a load balancer, have one.
type connections struct {
	*net.TCPListener
	name   string
	most   int64
	open   atomic.Int64
	logger *slog.Logger
	full   seldom.Gate
	// strangers are the connections that have not made a call. Nil where it does not matter.
	strangers *newest
	crowded   seldom.Gate
}

// Accept implements [net.Listener].
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return l.take(c), nil
		}
		l.open.Add(-1)
		if n, ok := l.full.Take(1, time.Second); ok {
			l.logger.Warn("server: a connection was refused: there are as many as may be (--max-clients)",
				"listener", l.name, "connections", l.most, "peer", c.RemoteAddr().String(), "unlogged", n)
		}
		_ = c.Close() // nobody reads what is left of it
	}
}

func (l *connections) take(tcp *net.TCPConn) *connection {
	c := &connection{TCPConn: tcp, left: func() { l.open.Add(-1) }, known: func() {}}
	if l.strangers != nil {
		c.known = l.strangers.add(func() {
			if n, ok := l.crowded.Take(1, time.Second); ok {
				l.logger.Warn("server: the oldest connection that has made no call was closed: there are as many of those as may be",
					"listener", l.name, "connections", l.strangers.most, "peer", tcp.RemoteAddr().String(), "unlogged", n)
			}
			_ = c.Close() // whoever serves it finds out
		})
	}
	return c
}

// connection is one that is counted. What is known of its client is found by its address: see [connectionOf].
type connection struct {
	*net.TCPConn
	known     func() // that it is no longer a stranger
	left      func()
	introduce sync.Once
	closing   sync.Once
	health    atomic.Int32 // calls of the health service under way
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.closing.Do(func() {
		c.known()
		c.left()
	})
	return c.TCPConn.Close()
}

// RemoteAddr implements [net.Conn].
func (c *connection) RemoteAddr() net.Addr { return remoteAddr{c.TCPConn.RemoteAddr(), c} }

// remoteAddr is the other end of a connection, and the connection itself: gRPC tells a call's address and nothing else of its
// connection.
type remoteAddr struct {
	net.Addr
	of *connection
}

// connectionOf returns the connection of a gRPC call.
func connectionOf(ctx context.Context) *connection {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(remoteAddr).of
}

// newest is a number of things that can be ended. One more than there may be ends the oldest: whoever is slow makes room for
// those who are not, and nobody can keep others out by being there first.
type newest struct {
	most int
	mu   sync.Mutex
	ends list.List // of func(), the oldest first
}

// add adds a thing by what ends it, and returns what takes it out again.
func (n *newest) add(end func()) (remove func()) {
	n.mu.Lock()
	var oldest *list.Element
	if n.ends.Len() >= n.most {
		oldest = n.ends.Front()
		n.ends.Remove(oldest)
	}
	e := n.ends.PushBack(end)
	n.mu.Unlock()
	if oldest != nil {
		oldest.Value.(func())() // it may take itself out
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ends.Remove(e)
	}
}
