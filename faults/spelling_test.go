package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
)

func TestF47(t *testing.T) {
	const promise = "none runs the handler past its limit; odd but honest requests pass unchanged"
	fault(t, "F47", "spellings of paths, methods and hosts, through the gateway, nginx, HAProxy and Caddy", promise, func(r *report) {
		fronts := startFronts(r)
		var group sync.WaitGroup
		for _, f := range fronts {
			group.Go(func() { f.misspell(r) })
			group.Go(func() { f.beHonest(r) })
		}
		group.Wait()
		if r.Failed() {
			return
		}
		r.saw("%d spellings through each of %d: none runs the handler; %d honest oddities pass", len(spellings()), len(fronts), len(oddities))
	})
}

// front is what clients connect to, in front of an application of its own.
type front struct {
	name, address string
	application   *spelledApplication
}

// startFronts starts the gateway, and each proxy with a stint of its own. Proxies refuse requests
// while stint does not answer, so that a busy machine is not taken for a way around it.
func startFronts(r *report) []*front {
	r.Helper()
	binary := proxytest.BuildStint(r)
	config := filepath.Join(r.TempDir(), "stint.yaml")
	if err := os.WriteFile(config, []byte(spellingConfig), 0o600); err != nil {
		r.Fatal(err)
	}
	gateway := &front{"gateway", proxytest.FreeAddress(r), newSpelledApplication(r)}
	proxytest.Launch(r, nil, binary, "gateway", "--store", "memory", "--config", config, "--admin", "",
		"--no-access-log",
		"--listen", gateway.address, "--upstream", "http://"+gateway.application.address,
		"--route", mounted.prefix+"=http://"+gateway.application.address, "--strip-prefix")
	proxytest.AwaitDial(r, gateway.address)
	fronts := []*front{gateway}
	shipped := withOverrides(r)
	for _, p := range []proxytest.Proxy{proxytest.Nginx, proxytest.HAProxy, proxytest.Caddy} {
		f := &front{p.Name, proxytest.FreeAddress(r), newSpelledApplication(r)}
		limiter := proxytest.NewStint(r, binary, "--config", config)
		limiter.Start(r)
		p.Start(r, proxytest.Setup{
			Shipped: shipped, Dir: r.TempDir(), Address: f.address, Stint: limiter.Address,
			Application: f.application.address, Changes: p.Closed,
		})
		fronts = append(fronts, f)
	}
	return fronts
}

// withOverrides copies the configurations of the proxies without the lines that take away what says
// another method: as their comments tell those whose applications want it, so that stint has to
// judge it.
func withOverrides(r *report) string {
	r.Helper()
	dir := r.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/proxies")); err != nil {
		r.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^.*(X-HTTP-Method|X-Method-Override).*\n`)
	for _, file := range []string{"nginx/client_headers.conf", "haproxy/haproxy.cfg", "caddy/Caddyfile"} {
		name := filepath.Join(dir, file)
		text, err := os.ReadFile(name)
		if err != nil {
			r.Fatal(err)
		}
		if n := len(line.FindAll(text, -1)); n < 3 {
			r.Fatalf("%s has %d lines about overrides, want 3 or more", file, n)
		}
		if err := os.WriteFile(name, line.ReplaceAll(text, nil), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	return dir
}

// misspell has clients use up a limit each, and then try a spelling of the request.
func (f *front) misspell(r *report) {
	list := spellings()
	inParallel(len(list), func(i int) {
		s := &list[i]
		network := 1
		if s.of.strict {
			network = 2
		}
		client, err := f.useUp(network, i, s.of)
		if err != nil {
			r.Errorf("%s: %q: %v", f.name, s.of.honest, err)
			return
		}
		ran := len(f.application.of(client))
		_, _ = f.send(client, s.request) // whatever it is answered with, or not at all
		for _, in := range f.application.of(client)[ran:] {
			if how := in.runs(s.of.resource); how != "" {
				r.Errorf("%s: %q arrives as %q and runs the handler for %s %s: %s", f.name, s.request, in.method+" "+in.target, s.of.method, s.of.host+s.of.path, how)
			}
		}
	})
	for _, in := range f.application.of("nobody") {
		r.Errorf("%s: %s %s arrives without the client's address", f.name, in.method, in.target)
	}
}

// useUp has a client do once what it may do once, until it is denied, and returns that client.
func (f *front) useUp(network, i int, v victim) (client string, err error) {
	client, status, err := f.patiently(network, i, v.honest)
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("the first answer is %d, %v", status, err)
	}
	for range tries { // it has had its turn: nothing of what is asked again runs the handler
		if status, err = f.send(client, v.honest); err == nil && status == http.StatusTooManyRequests {
			break
		}
	}
	if ran := len(f.application.of(client)); ran != 1 || err != nil || status != http.StatusTooManyRequests {
		return "", fmt.Errorf("its limit is not used up: it ran the handler %d times, and the last answer is %d, %v", ran, status, err)
	}
	return client, nil
}

// tries is how often a request is made until a proxy waits for the answers to it. They give up
// sooner than a busy machine answers.
const tries = 50

// patiently makes a request, and makes it again as another client if the proxy did not wait for
// stint or the application. These may have charged or run the first one all the same, so that the
// arrivals of a client are those of one request only. It returns the last client.
func (f *front) patiently(network, i int, request string) (client string, status int, err error) {
	for n := range tries {
		client = fmt.Sprintf("127.%d.%d.%d", network, 1+4*n+i/200, 1+i%200)
		if status, err = f.send(client, request); err == nil && status < http.StatusInternalServerError {
			break
		}
	}
	return client, status, err
}

// send makes a request from an address of this host, and returns the status of the last answer.
func (f *front) send(client, request string) (int, error) {
	conn, err := f.dial(client)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	method, _, _ := strings.Cut(request, " ")
	answers := bufio.NewReader(conn)
	status := 0
	for {
		resp, err := http.ReadResponse(answers, &http.Request{Method: method})
		if errors.Is(err, io.EOF) && status != 0 {
			return status, nil
		}
		if err != nil {
			return status, err
		}
		status = resp.StatusCode
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close ||
			status == http.StatusSwitchingProtocols {
			return status, err
		}
	}
}

func (f *front) dial(client string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.Dial("tcp", f.address)
	if err != nil {
		return nil, err
	}
	// nobody is waited for that long, unless something is wrong
	return conn, conn.SetDeadline(time.Now().Add(time.Minute))
}

// inParallel calls f with all numbers below n, several at a time.
func inParallel(n int, f func(int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range 4 {
		group.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

// TestSpellings has every spelling of the table be one: some application takes it for what is
// limited.
func TestSpellings(t *testing.T) {
	for _, s := range spellings() {
		r := bufio.NewReader(strings.NewReader(strings.Replace(s.request, s.of.prefix, "", 1)))
		runs := false
		for {
			in, err := readArrival(r)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%q: %v", s.request, err)
				}
				break
			}
			runs = runs || in.runs(s.of.resource) != ""
		}
		if !runs {
			t.Errorf("%q runs the handler for %s %s nowhere", s.request, s.of.method, s.of.host+s.of.path)
		}
	}
}
