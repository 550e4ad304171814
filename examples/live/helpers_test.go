package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"
)

// program is run while it runs.
type program struct {
	t      *testing.T
	out    output
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// start runs the program until the test ends, or stop is called.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{t: t, cancel: cancel, ended: make(chan struct{})}
	p.out.changed = make(chan struct{}, 1)
	go func() {
		defer close(p.ended)
		p.err = run(ctx, append([]string{"-http", anyAddress}, args...), &p.out)
	}()
	t.Cleanup(func() { p.stop() })
	return p
}

// stop interrupts the program and returns its error.
func (p *program) stop() error {
	p.cancel()
	return p.end()
}

// end returns the program's error when it has ended.
func (p *program) end() error {
	<-p.ended
	return p.err
}

// wait returns what a pattern finds in the output, as soon as it does.
func (p *program) wait(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(30 * time.Second)
	for {
		if found := re.FindString(p.out.String()); found != "" {
			return found
		}
		select {
		case <-p.out.changed:
		case <-p.ended:
			p.t.Fatalf("the program ended with %v; %q is not in its output:\n%s", p.err, pattern, p.out.String())
		case <-timeout:
			p.t.Fatalf("%q does not appear in the output:\n%s", pattern, p.out.String())
		}
	}
}

func (p *program) url() string { return p.wait(`http://127\.0\.0\.1:\d+`) }

// get returns the status of the answer to a GET by way of a proxy that says it came from an address.
func get(t *testing.T, url, from string) int {
	t.Helper()
	c := caller{method: http.MethodGet, header: http.Header{"X-Forwarded-For": {from}}}
	status, err := c.call(t.Context(), http.DefaultClient, url)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// admitted returns how many of n requests from an address are answered with 200; the rest must be denied.
func admitted(t *testing.T, url, from string, n int) int {
	t.Helper()
	count := 0
	for range n {
		switch status := get(t, url, from); status {
		case http.StatusOK:
			count++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("status %d; want 200 or 429", status)
		}
	}
	return count
}

// output is what a program has written so far. The tests of one program read it from one goroutine.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
