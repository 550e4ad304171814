package main

import (
	"net"
	"sync"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// delayed is a proxy that simulates a network: every byte is delayed by half a round trip in each
// direction.
type delayed struct {
	listener net.Listener
	upstream string
	half     time.Duration
	mutex    sync.Mutex
	open     []net.Conn
	group    sync.WaitGroup
}

func startDelayed(upstream string, roundTrip time.Duration) *delayed {
	listener := contest.Must(net.Listen("tcp", "127.0.0.1:0"))
	p := &delayed{listener: listener, upstream: upstream, half: roundTrip / 2}
	p.group.Go(p.accept)
	return p
}

func (p *delayed) addr() string { return p.listener.Addr().String() }

// Close ends the proxy and its connections.
func (p *delayed) Close() {
	p.listener.Close()
	p.mutex.Lock()
	for _, c := range p.open {
		c.Close()
	}
	p.mutex.Unlock()
	p.group.Wait()
}

func (p *delayed) accept() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.upstream)
		if err != nil {
			down.Close()
			continue
		}
		p.mutex.Lock()
		p.open = append(p.open, down, up)
		p.mutex.Unlock()
		p.group.Go(func() { p.pass(down, up) })
		p.group.Go(func() { p.pass(up, down) })
	}
}

// pass forwards everything that it reads, each part after half a round trip.
func (p *delayed) pass(from, to net.Conn) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 1024)
	p.group.Go(func() {
		defer to.Close()
		for part := range parts {
			time.Sleep(time.Until(part.due))
			if _, err := to.Write(part.data); err != nil {
				from.Close() // makes the reader end, which closes the channel
			}
		}
	})
	defer close(parts)
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		parts <- part{time.Now().Add(p.half), data[:n]}
	}
}
