package server

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/stint-limiter/stint/internal/logsample"
)

// connections is a listener that limits the number of its open connections. It immediately closes
// any further connection, so that the client does not wait for an answer.
//
// There is no limit per address, because many clients can share an address: Envoys behind a NAT, or
// all clients of a gateway behind a load balancer.
type connections struct {
	*net.TCPListener
	name   Listener
	most   int64
	open   atomic.Int64
	logger *slog.Logger
	full   logsample.Sampler
	// newConns holds the connections that have not made a call yet. It is nil if their number is
	// not limited. In that case, the [http.Server] updates silent.
	newConns *boundedSet
	silent   *silentConns
	evicted  logsample.Sampler
}

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
		if n, ok := l.full.Allow(1, time.Second); ok {
			l.logger.Warn("server: refused a connection: the listener has reached its maximum (--max-clients)",
				"listener", l.name, "connections", l.most, "peer", c.RemoteAddr().String(), "unlogged", n)
		}
		_ = c.Close()
	}
}

func (l *connections) take(tcp *net.TCPConn) *connection {
	c := &connection{TCPConn: tcp, release: func() { l.open.Add(-1) }, called: func() {}}
	if l.newConns != nil {
		l.silent.track(c, http.StateNew)
		c.heard = func() { l.silent.track(c, http.StateActive) }
		leave := l.newConns.add(func() {
			if n, ok := l.evicted.Allow(1, time.Second); ok {
				l.logger.Warn("server: closed the oldest connection without a call: there are too many of them",
					"listener", l.name, "connections", l.newConns.most, "peer", tcp.RemoteAddr().String(),
					"unlogged", n)
			}
			_ = c.Close() // ends the goroutine that serves the connection
		})
		c.called = func() {
			c.heard()
			leave()
		}
	}
	return c
}

// connection is a connection that a [connections] listener has accepted. [connectionOf] returns the
// connection of a gRPC call.
type connection struct {
	*net.TCPConn
	called    func() // runs when the first call that is not a health check arrives, and on Close
	heard     func() // runs when a call to the health service arrives
	release   func()
	firstCall sync.Once
	closing   sync.Once
	health    atomic.Int32 // number of calls to the health service in progress
}

func (c *connection) Close() error {
	c.closing.Do(func() {
		c.called()
		c.release()
	})
	return c.TCPConn.Close()
}

func (c *connection) RemoteAddr() net.Addr { return remoteAddr{c.TCPConn.RemoteAddr(), c} }

// remoteAddr is the remote address of a connection, with a pointer to the connection. gRPC passes
// only the address to handlers, so they find the connection through it.
type remoteAddr struct {
	net.Addr
	of *connection
}

func connectionOf(ctx context.Context) *connection {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(remoteAddr).of
}

// boundedSet is a set of connections or calls with a maximum size. Adding an element to a full set
// ends the oldest element, so long-lived elements cannot keep new clients out.
type boundedSet struct {
	most int
	mu   sync.Mutex
	ends list.List // the end functions, each a func(), oldest first
}

// add adds an element, and ends the oldest one if the set is full. Calling end ends the element,
// and calling remove removes it from the set.
func (n *boundedSet) add(end func()) (remove func()) {
	n.mu.Lock()
	var oldest *list.Element
	if n.ends.Len() >= n.most {
		oldest = n.ends.Front()
		n.ends.Remove(oldest)
	}
	e := n.ends.PushBack(end)
	n.mu.Unlock()
	if oldest != nil {
		oldest.Value.(func())() // without n.mu, because the function may call remove
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ends.Remove(e)
	}
}

// silentConns tracks the connections on which no request has arrived yet. Browsers open such
// connections in advance. [http.Server.Shutdown] would wait until each of them is five seconds old,
// and [grpc.Server.GracefulStop] until the connection timeout.
type silentConns struct {
	mu    sync.Mutex
	since map[net.Conn]time.Time
	most  time.Duration // the maximum age; 0 until the server stops
}

// track is the ConnState function of an [http.Server].
func (s *silentConns) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.since, c)
		return
	}
	s.since[c] = time.Now()
	if s.most > 0 {
		s.closeLater(c)
	}
}

// end makes s close every silent connection when it reaches the given age, including connections
// that are accepted later. Clients on younger connections may be about to send a request.
func (s *silentConns) end(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = age
	for c := range s.since {
		s.closeLater(c)
	}
}

func (s *silentConns) closeLater(c net.Conn) {
	time.AfterFunc(s.most-time.Since(s.since[c]), func() {
		s.mu.Lock()
		_, silent := s.since[c]
		s.mu.Unlock()
		if silent {
			_ = c.Close() // ends the goroutine that serves the connection
		}
	})
}
