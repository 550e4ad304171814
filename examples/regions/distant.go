package main

import (
	"io"
	"net"
	"time"
)

// distant starts a proxy for the server at address, and returns the address of the proxy. The proxy
// delays data by 40 ms in each direction. It stands for the network between a region and its Redis
// server.
func distant(address string) string {
	listener, err := net.Listen("tcp", "localhost:0")
	check(err)
	go func() {
		for {
			near, err := listener.Accept()
			check(err)
			far, err := net.Dial("tcp", address)
			check(err)
			go carry(near, far)
			go carry(far, near)
		}
	}()
	return listener.Addr().String()
}

func carry(to io.WriteCloser, from io.Reader) {
	type piece struct {
		bytes  []byte
		arrive time.Time
	}
	way := make(chan piece, 1000)
	go func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.arrive))
			if _, err := to.Write(p.bytes); err != nil {
				return
			}
		}
	}()
	defer close(way)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		way <- piece{b[:n], time.Now().Add(40 * time.Millisecond)}
	}
}
