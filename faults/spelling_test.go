package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// F47: what passes a limit that is used up is read in all ways that servers and libraries are known
// to read requests, and sent to real frameworks, which say what handler it runs.
func TestF47(t *testing.T) {
	const promise = "none runs a handler past its limit; odd but honest requests pass unchanged"
	fault(t, "F47", "spellings of paths, methods, hosts and header names, through the gateway, nginx, HAProxy and Caddy, in front of real frameworks", promise, func(r *report) {
		frameworks := startFrameworks(r)
		fronts := startFronts(r)
		common := slices.Concat(spellings(), frameworkAttempts(), generatedAttempts(*spellingSeed, *spellingCount))
		absolute := absoluteAttempts()
		var passed passings
		var tried atomic.Int64
		var group sync.WaitGroup
		for _, f := range fronts {
			every := pick(1, 31)
			if f.name == "gateway" { // which is quicker
				every = pick(1, 5)
			}
			attempts := slices.Concat(common, everyNth(absolute, every))
			tried.Add(int64(len(attempts)))
			group.Go(func() { f.attack(r, attempts, &passed) })
			group.Go(func() { f.beHonest(r) })
		}
		group.Wait()
		r.Logf("%d requests pass limits that are used up, and are sent to frameworks", len(passed.list))
		var found leaks
		for _, a := range frameworks {
			group.Go(func() {
				for _, p := range passed.list {
					if a.run(p.raw) == p.handler {
						found.add(a, p)
					}
				}
				a.awaitHandlers(r) // what does not answer runs nothing
			})
		}
		group.Wait()
		if len(found.rows) > 0 {
			slices.Sort(found.rows)
			r.Errorf("%d requests run handlers past their limits:\n%s", len(found.rows), strings.Join(found.rows, "\n"))
		}
		r.saw("%d spellings through %d proxies, in front of %d frameworks: none runs a handler; %d honest oddities pass",
			tried.Load(), len(fronts), len(frameworks), len(oddities))
	})
}

// front is what clients connect to, the gateway or a proxy, in front of a tap.
type front struct {
	name, address string
	tap           *tap
	clients       atomic.Int64
}

// startFronts starts the gateway, and each proxy with a stint of its own. Proxies refuse requests
// while stint does not answer, so that a busy machine is not taken for a way around it.
func startFronts(r *report) []*front {
	r.Helper()
	binary := proxytest.BuildStint(r)
	config := testkit.TempFile(r, "stint.yaml", spellingConfig)
	newFront := func(name string) *front {
		return &front{name: name, address: proxytest.FreeAddress(r), tap: newTap(r)}
	}
	gateway := newFront("gateway")
	proxytest.Launch(r, nil, binary, "gateway", "--store", "memory", "--config", config, "--admin", "", "--no-access-log",
		"--listen", gateway.address, "--upstream", "http://"+gateway.tap.address,
		"--route", mount+"=http://"+gateway.tap.address, "--strip-prefix")
	proxytest.AwaitDial(r, gateway.address)
	fronts := []*front{gateway}
	shipped := withOverrides(r)
	for _, p := range []proxytest.Proxy{proxytest.Nginx, proxytest.HAProxy, proxytest.Caddy} {
		f := newFront(p.Name)
		limiter := proxytest.NewStint(r, binary, "--config", config)
		limiter.Start(r)
		p.Start(r, proxytest.Setup{Shipped: shipped, Dir: r.TempDir(), Address: f.address, Stint: limiter.Address,
			Application: f.tap.address, Changes: p.Closed})
		fronts = append(fronts, f)
	}
	return fronts
}

// withOverrides copies the configurations of the proxies without the lines that take away what says
// another method: as their comments tell those whose applications want it, so that stint has to
// judge it. HAProxy is told of the field that a policy looks at, as its script says.
func withOverrides(r *report) string {
	r.Helper()
	dir := r.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/proxies")); err != nil {
		r.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^.*(X-HTTP-Method|X-Method-Override).*\n`)
	for _, file := range []string{"nginx/client_headers.conf", "haproxy/haproxy.cfg", "caddy/Caddyfile"} {
		name := filepath.Join(dir, file)
		text := testkit.Must(os.ReadFile(name))(r)
		if n := len(line.FindAll(text, -1)); n < 3 {
			r.Fatalf("%s has %d lines about overrides, want 3 or more", file, n)
		}
		if err := os.WriteFile(name, line.ReplaceAll(text, nil), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	script := filepath.Join(dir, "haproxy")
	proxytest.Install(r, script, filepath.Join(script, "stint.lua"), `"x-user-id",`, `"x-user-id", "x-api-key",`)
	return dir
}

// attempt is a request that may run a handler whose limit the honest one has used up.
type attempt struct {
	handler         string   // as frameworks name it
	of              resource // as readers name it; zero: only frameworks are asked
	honest, request string
	strict          bool // limited by the tier of its client
}

// as returns an attempt that makes another request.
func (a attempt) as(request string) attempt {
	a.request = request
	return a
}

// everyNth returns every nth of a list.
func everyNth[T any](list []T, n int) (some []T) {
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// workers is how many requests there are at a time through each front.
const workers = 4

// attack has clients use up the limits, make the attempts, and keeps what passes. Readers judge it at
// once.
func (f *front) attack(r *report, attempts []attempt, passed *passings) {
	var spent [workers]map[string]string // by the honest request: who has used up the limit
	inParallel(workers, len(attempts), func(worker, i int) {
		a := attempts[i]
		if spent[worker] == nil {
			spent[worker] = map[string]string{}
		}
		client := spent[worker][a.honest]
		if client == "" {
			var err error
			if client, err = f.spend(a); err != nil {
				r.Errorf("%s: %q: %v", f.name, a.honest, err)
				return
			}
			spent[worker][a.honest] = client
		}
		known := len(f.tap.of(client))
		_, _ = f.send(client, a.request) // whatever it is answered with, or not at all
		for _, in := range f.tap.of(client)[known:] {
			if how := in.runs(a.of); how != "" && a.of != (resource{}) {
				r.Errorf("%s: %q arrives as %q to %q and runs the handler for %v: %s", f.name, a.request,
					in.method+" "+in.target, in.hostFields(), a.of, how)
			}
			passed.add(f, a, in.raw)
		}
	})
	for _, clients := range spent {
		for honest, client := range clients {
			if status, err := f.send(client, honest); status == http.StatusOK {
				r.Errorf("%s: %q passes twice: %d, %v", f.name, honest, status, err)
			}
		}
	}
	for _, in := range f.tap.of("nobody") {
		r.Errorf("%s: %q arrives without the client's address", f.name, in.raw)
	}
}

// spend makes the honest request of an attempt once, and returns the client that made it.
func (f *front) spend(a attempt) (client string, err error) {
	network, status := 1, 0
	if a.strict {
		network = 2
	}
	for range tries {
		client, status, err = f.patiently(network, a.honest)
		if err == nil && status == http.StatusOK && len(f.tap.of(client)) == 1 {
			return client, nil
		}
	}
	return "", fmt.Errorf("the first answer is %d, %v", status, err)
}

// tries is how often a request is made until a proxy waits for the answers to it. They give up
// sooner than a busy machine answers.
const tries = 50

// patiently makes a request, and makes it again as another client if the proxy did not wait for
// stint or the application. These may have charged or run the first one all the same, so that the
// arrivals of a client are those of one request only. It returns the last client.
func (f *front) patiently(network int, request string) (client string, status int, err error) {
	for range tries {
		n := f.clients.Add(1)
		client = fmt.Sprintf("127.%d.%d.%d", network, 1+n/200, 1+n%200)
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

func (f *front) dial(client string) (net.Conn, error) { return dialFrom(client, f.address) }

func dialFrom(client, address string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(time.Minute)) // far longer than any answer takes
}

// passing is a request that passed a limit that is used up, as an application gets it.
type passing struct {
	attempt
	raw    string
	fronts []string // that let it pass
}

// passings are those of all fronts.
type passings struct {
	mu    sync.Mutex
	list  []*passing
	known map[string]*passing
}

// add keeps a request. Those that fronts send alike are one.
func (p *passings) add(f *front, a attempt, raw string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := a.request + essence(raw)
	one := p.known[key]
	if one == nil {
		if p.known == nil {
			p.known = map[string]*passing{}
		}
		one = &passing{attempt: a, raw: raw}
		p.known[key], p.list = one, append(p.list, one)
	}
	one.fronts = append(one.fronts, f.name)
}

// essence is a request without what fronts write differently and handlers do not depend on.
func essence(raw string) string {
	target, fields, _ := strings.Cut(raw, "\r\n")
	var kept []string
	for line := range strings.SplitSeq(fields, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch name = strings.ToLower(name); name {
		case "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "accept-encoding", "connection", "content-length":
		default:
			kept = append(kept, name+":"+value)
		}
	}
	slices.Sort(kept)
	return target + strings.Join(kept, "\n")
}

// tap is an application that takes every request that it can make anything of, and keeps it.
type tap struct {
	address string

	mu       sync.Mutex
	arrivals map[string][]*arrival // by the client's address
	conns    []net.Conn
}

func newTap(t testing.TB) *tap {
	t.Helper()
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	k := &tap{address: listener.Addr().String(), arrivals: map[string][]*arrival{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns = append(k.conns, conn)
			k.mu.Unlock()
			serving.Go(func() {
				k.serve(conn)
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		k.mu.Lock()
		for _, conn := range k.conns {
			conn.Close()
		}
		k.mu.Unlock()
		serving.Wait()
	})
	return k
}

// serve answers /events with a stream, websockets with an echo, and everything else with 200.
func (k *tap) serve(conn net.Conn) {
	var read bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &read))
	for {
		in, err := readArrival(r)
		if err != nil {
			return
		}
		in.raw = string(read.Next(read.Len() - r.Buffered()))
		client := "nobody"
		if chain := strings.Join(in.header["x-forwarded-for"], ","); chain != "" {
			client = strings.TrimSpace(chain[strings.LastIndexByte(chain, ',')+1:])
		}
		k.mu.Lock()
		k.arrivals[client] = append(k.arrivals[client], in)
		k.mu.Unlock()
		switch {
		case len(in.header["sec-websocket-key"]) > 0 && len(in.header["upgrade"]) > 0:
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
			_, _ = io.Copy(conn, r) // until the client goes away
			return
		case strings.HasSuffix(in.target, "/events"):
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+
				"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")
		case in.method == http.MethodHead:
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		default:
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
		}
	}
}

// of returns the requests that came from a client so far.
func (k *tap) of(client string) []*arrival {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.arrivals[client])
}
