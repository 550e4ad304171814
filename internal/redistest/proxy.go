package redistest

import (
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// never is the duration of a wait that ends only when the alarm is set again.
const never = time.Duration(math.MaxInt64)

// Direction is the direction of a message.
type Direction int

const (
	Requests Direction = iota // from clients to Redis
	Replies                   // from Redis to clients
)

// Proxy forwards data between clients and one Redis server, and simulates network faults.
//
// Faults may be set at any time, from any goroutine. They apply at once to all current and future
// connections. Faults combine: a reply can be both late and in pieces. For connections that do not
// use RESP, such as TLS connections, all faults apply except those that affect single messages.
//
// The faults that affect single messages ([Proxy.DropRequests], [Proxy.DropReplies],
// [Proxy.DropNext], [Proxy.StallReplies], [Proxy.SwapReplies]) apply only to scripts: requests
// whose command begins with EVAL, and their replies. All other messages pass, so that a client can
// always connect, authenticate and discover nodes. Replies are matched by counting, so these faults
// do not work on a connection that turns replies off (CLIENT REPLY) or uses MONITOR.
//
// A delay does not limit the data in flight: the proxy buffers any number of waiting bytes, in
// memory.
type Proxy struct {
	t    testing.TB
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex // guards everything below
	target   string
	faults   faults
	listener net.Listener // nil between Cut and Restore
	ended    bool
	links    map[*link]bool
	dials    int
}

type faults struct {
	roundTrip, jitter time.Duration
	bandwidth         int
	slice             int
	gap               time.Duration
	silent            bool
	share             [2]float64 // share of messages to drop, by Direction
	next              [2]int     // number of messages to drop regardless of share, by Direction
	stallEvery        int
	stallSeen         int
	stall             time.Duration
	swap              bool
}

// StartProxy starts a proxy on a free loopback port in front of the server at the target address.
// The proxy ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, links: map[*link]bool{}}
	var err error
	for range 20 {
		var port int
		if port, err = freePort(false); err != nil {
			break
		}
		p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = p.listen(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.cut()
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Addr returns the proxy's address as host:port.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the proxy's address as a redis:// URL, without a password.
func (p *Proxy) URL() string { return "redis://" + p.addr }

// Dials returns the number of connections accepted since the proxy started.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Open returns how many connections are open. A connection that its client has closed counts until
// Redis has closed its end too.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// SetTarget directs new connections to another server. Existing ones stay, as when an address moves
// to another server.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// SetLatency delays a round trip by the given time, half of it in each direction, plus a random
// time of up to `jitter`. Messages never overtake each other. Connecting is not delayed.
func (p *Proxy) SetLatency(roundTrip, jitter time.Duration) {
	p.change(func(f *faults) { f.roundTrip, f.jitter = roundTrip, jitter })
}

// SetBandwidth limits the bandwidth of each direction of each connection; 0 removes the limit.
func (p *Proxy) SetBandwidth(bytesPerSecond int) {
	p.change(func(f *faults) { f.bandwidth = bytesPerSecond })
}

// SetSlice makes the proxy write each reply in pieces of at most the given number of bytes, with a
// gap between them. If bytes is 0, it writes replies whole.
func (p *Proxy) SetSlice(bytes int, gap time.Duration) {
	p.change(func(f *faults) { f.slice, f.gap = bytes, gap })
}

// Cut closes all connections, drops data in flight, and refuses new connections until
// [Proxy.Restore], as if the machine were up but the server were not.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
}

// Silence makes the proxy accept connections but hold everything that is sent in either direction,
// including the end of a connection, until [Proxy.Restore]. After that, Redis runs requests whose
// callers may have given up long ago, as it does after a [Server.Pause].
func (p *Proxy) Silence() { p.change(func(f *faults) { f.silent = true }) }

// Restore ends [Proxy.Cut], [Proxy.Silence] and [Proxy.SwapReplies]. The other faults end when they
// are set to 0.
func (p *Proxy) Restore() {
	p.change(func(f *faults) { f.silent, f.swap = false, false })
	// Another test may be checking at this moment whether the port is free.
	if err := poll(startTimeout, time.Millisecond, p.listen); err != nil {
		p.t.Errorf("redistest: proxy: restore: %v", err)
	}
}

// DropRequests drops the given share of the requests before Redis sees them. A request cannot be
// missing from a pipeline, so a dropped request is the last of its connection: Redis answers the
// ones before it, then the connection is closed.
func (p *Proxy) DropRequests(share float64) {
	p.change(func(f *faults) { f.share[Requests] = share })
}

// DropReplies drops the given share of the replies, after Redis has executed the requests. A reply
// cannot be missing from a pipeline, so a dropped reply is the last of its connection: the ones
// before it are delivered, then the connection is closed.
func (p *Proxy) DropReplies(share float64) {
	p.change(func(f *faults) { f.share[Replies] = share })
}

// DropNext drops the next n requests or replies, on any connections, in the same way as
// [Proxy.DropRequests] and [Proxy.DropReplies].
func (p *Proxy) DropNext(d Direction, n int) { p.change(func(f *faults) { f.next[d] = n }) }

// StallReplies holds some replies for d: those whose number is a multiple of `every`, counted over
// all connections. Everything behind a held reply on its connection waits, too. If `every` is 0, no
// reply is held.
func (p *Proxy) StallReplies(every int, d time.Duration) {
	p.change(func(f *faults) { f.stallEvery, f.stallSeen, f.stall = every, 0, d })
}

// SwapReplies lets the next reply of each connection pass and answers each later request with the
// reply to the previous one, so that the connection is out of step by one. [Proxy.Restore] ends
// this.
func (p *Proxy) SwapReplies() { p.change(func(f *faults) { f.swap = true }) }

// change sets faults and reschedules all messages in flight.
func (p *Proxy) change(set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(&p.faults)
	for l := range p.links {
		l.wake()
	}
}

// listen opens the listener, unless the proxy is already listening.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.ended {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.wg.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.t.Errorf("redistest: proxy: %v", err)
			return
		}
		l := &link{proxy: p, client: conn.(*net.TCPConn)}
		p.mu.Lock()
		p.dials++
		p.links[l] = true
		if p.listener != listener { // Cut was called in the meantime
			l.close()
		}
		p.mu.Unlock()
		p.wg.Go(l.run)
	}
}

func (f *faults) drops(d Direction) bool {
	if f.next[d] > 0 {
		f.next[d]--
		return true
	}
	return rand.Float64() < f.share[d]
}

func (f *faults) stalls() bool {
	if f.stallEvery == 0 {
		return false
	}
	f.stallSeen++
	return f.stallSeen%f.stallEvery == 0
}
