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

// never is a wait that ends only when an alarm is set anew.
const never = time.Duration(math.MaxInt64)

// Direction is the direction of a message.
type Direction int

const (
	Requests Direction = iota // to Redis
	Replies                   // to the client
)

// Proxy sits between clients and one Redis server and behaves like a network.
//
// Faults may be set at any time, from any goroutine. They apply at once to all present and future
// connections. Faults add up: a reply can be late and in pieces. Connections that do not speak
// RESP, such as those of TLS, are forwarded with all faults but those of single messages.
//
// The faults of single messages ([Proxy.DropRequests], [Proxy.DropReplies], [Proxy.DropNext],
// [Proxy.StallReplies], [Proxy.SwapReplies]) apply only to scripts: requests whose command begins
// with EVAL, and their replies. Everything else passes, so that a client can always connect,
// authenticate and look around. Replies are matched by counting, so these faults do not work on a
// connection that turns replies off (CLIENT REPLY) or watches (MONITOR).
//
// The network is long, not narrow: bytes that wait in the proxy are kept without limit, in the
// memory of the test.
type Proxy struct {
	t    testing.TB
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex // guards everything below
	target   string
	faults   faults
	listener net.Listener // nil while cut
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
	share             [2]float64 // by Direction, of the messages that are dropped
	next              [2]int     // by Direction, how many are dropped whatever the share
	stallEvery        int
	stallSeen         int
	stall             time.Duration
	swap              bool
}

// StartProxy puts a proxy on a free loopback port in front of a server. It ends with the test.
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

// Addr returns host:port.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the address as a redis:// URL, without a password.
func (p *Proxy) URL() string { return "redis://" + p.addr }

// Dials returns how many connections were accepted since the start.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Open returns how many connections are open. One that its client has closed counts until Redis has
// closed its end too.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// SetTarget directs new connections to another server. Existing ones stay, as when an address
// moves.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// SetLatency makes a round trip longer by roundTrip, half of it in each direction, and by something
// random up to jitter. Messages never overtake each other. Connecting takes no longer than before.
func (p *Proxy) SetLatency(roundTrip, jitter time.Duration) {
	p.change(func(f *faults) { f.roundTrip, f.jitter = roundTrip, jitter })
}

// SetBandwidth narrows each direction of each connection; 0 ends that.
func (p *Proxy) SetBandwidth(bytesPerSecond int) {
	p.change(func(f *faults) { f.bandwidth = bytesPerSecond })
}

// SetSlice writes each reply in pieces of at most that many bytes, a gap apart; 0 bytes end that.
func (p *Proxy) SetSlice(bytes int, gap time.Duration) {
	p.change(func(f *faults) { f.slice, f.gap = bytes, gap })
}

// Cut closes all connections, dropping what is in flight, and refuses new ones until
// [Proxy.Restore]: the machine is there, the server is not.
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

// Silence accepts connections and holds everything that is sent in either direction, including that
// one side has closed, until [Proxy.Restore]: Redis then runs requests whose callers have long
// gone, as after [Server.Pause].
func (p *Proxy) Silence() { p.change(func(f *faults) { f.silent = true }) }

// Restore ends [Proxy.Cut], [Proxy.Silence] and [Proxy.SwapReplies], the faults that have no value
// for none.
func (p *Proxy) Restore() {
	p.change(func(f *faults) { f.silent, f.swap = false, false })
	// Another test may be checking whether the port is free.
	if err := poll(startTimeout, time.Millisecond, p.listen); err != nil {
		p.t.Errorf("redistest: proxy: restore: %v", err)
	}
}

// DropRequests swallows that share of the requests before Redis sees them. A request cannot be
// missing from a pipeline, so it is the last of its connection: Redis answers those before it, then
// the connection is closed.
func (p *Proxy) DropRequests(share float64) {
	p.change(func(f *faults) { f.share[Requests] = share })
}

// DropReplies swallows that share of the replies, after Redis did what it was asked. A reply cannot
// be missing from a pipeline, so it is the last of its connection: those before it are delivered,
// then the connection is closed.
func (p *Proxy) DropReplies(share float64) {
	p.change(func(f *faults) { f.share[Replies] = share })
}

// DropNext drops the next n requests or replies, on whichever connections, as [Proxy.DropRequests]
// and [Proxy.DropReplies] do.
func (p *Proxy) DropNext(d Direction, n int) { p.change(func(f *faults) { f.next[d] = n }) }

// StallReplies holds every n-th reply of all connections for d, and with it what comes behind it on
// its connection; 0 ends that.
func (p *Proxy) StallReplies(every int, d time.Duration) {
	p.change(func(f *faults) { f.stallEvery, f.stallSeen, f.stall = every, 0, d })
}

// SwapReplies lets the next reply of each connection pass and answers each request after that with
// the reply of the one before: a connection out of step by one. [Proxy.Restore] ends that.
func (p *Proxy) SwapReplies() { p.change(func(f *faults) { f.swap = true }) }

// change sets faults and reconsiders all messages in flight.
func (p *Proxy) change(set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(&p.faults)
	for l := range p.links {
		l.wake()
	}
}

// listen does nothing if the proxy listens already.
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
		if p.listener != listener { // cut in the meantime
			l.close()
		}
		p.mu.Unlock()
		p.wg.Go(l.run)
	}
}

// drops decides on one message.
func (f *faults) drops(d Direction) bool {
	if f.next[d] > 0 {
		f.next[d]--
		return true
	}
	return rand.Float64() < f.share[d]
}

// stalls decides on one reply.
func (f *faults) stalls() bool {
	if f.stallEvery == 0 {
		return false
	}
	f.stallSeen++
	return f.stallSeen%f.stallEvery == 0
}
