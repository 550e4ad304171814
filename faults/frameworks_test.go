package faults

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// F47b: what passes a limit that is used up is sent to real frameworks. Which spellings run a
// handler is what these say, not what a table says.
func TestF47Frameworks(t *testing.T) {
	const promise = "none runs a handler past its limit"
	fault(t, "F47b", "spellings of paths, hosts and header names, through the same, in front of real frameworks", promise, func(r *report) {
		applications := startFrameworks(r)
		fronts := startTappedFronts(r)
		attempts := slices.Concat(tableAttempts(), frameworkAttempts(),
			generatedAttempts(*spellingSeed, *spellingCount))
		var passed passings
		var group sync.WaitGroup
		for _, f := range fronts {
			group.Go(func() { f.attack(r, attempts, &passed) })
		}
		group.Wait()
		r.Logf("%d requests pass limits that are used up, and are sent to frameworks", len(passed.list))
		var found leaks
		for _, a := range applications {
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
		if r.Failed() {
			return
		}
		r.saw("%d spellings through each of %d, in front of %d frameworks: none runs a handler", len(attempts), len(fronts), len(applications))
	})
}

// attempt is a request that may run a handler whose limit the honest one has used up.
type attempt struct {
	handler         string // as frameworks name it
	honest, request string
	strict          bool // limited by the tier of its client
}

// tableAttempts are the spellings of F47.
func tableAttempts() []attempt {
	var list []attempt
	for _, s := range spellings() {
		handler := "admin"
		if s.of.host == "" {
			handler = strings.ReplaceAll(strings.TrimPrefix(s.of.path, "/"), "/", " ")
		}
		list = append(list, attempt{handler, s.of.honest, s.request, s.of.strict})
	}
	return list
}

// framework is an application in tools/frameworks. It names the handler that it runs in a field.
type framework struct{ name, address string }

// startFrameworks returns when all answer.
func startFrameworks(r *report) []*framework {
	r.Helper()
	dir, err := filepath.Abs("../tools/frameworks")
	if err != nil {
		r.Fatal(err)
	}
	node, puma := proxytest.Find(r, "node", "nodejs"), proxytest.Find(r, "puma", "puma")
	php, python := proxytest.Find(r, "php", "php-cli"), proxytest.Find(r, "/usr/bin/python3", "python3")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".installed")); err != nil {
		r.Fatalf("%v: run make setup", err)
	}
	var list []*framework
	start := func(name, program string, args func(host, port string) []string) {
		f := &framework{name, proxytest.FreeAddress(r)}
		host, port, _ := strings.Cut(f.address, ":")
		proxytest.Launch(r, []string{"PYTHONDONTWRITEBYTECODE=1"}, program, args(host, port)...)
		list = append(list, f)
	}
	start("rails", puma, func(host, port string) []string { // the slowest first
		return []string{"--quiet", "--config", "-", "--environment", "production", "--threads", "4:4",
			"--bind", "tcp://" + host + ":" + port, filepath.Join(dir, "rails", "config.ru")}
	})
	for _, name := range []string{"astro", "express", "hono"} {
		start(name, node, func(host, port string) []string {
			return []string{filepath.Join(dir, name, "app.js"), host, port}
		})
	}
	start("django", python, func(host, port string) []string {
		return []string{"-m", "gunicorn", "--log-level", "error", "--bind", host + ":" + port, "--threads", "4",
			"--chdir", filepath.Join(dir, "django"), "application"}
	})
	start("flask", python, func(host, port string) []string {
		return []string{filepath.Join(dir, "flask", "application.py"), host, port}
	})
	for _, name := range []string{"php", "symfony"} {
		start(name, php, func(host, port string) []string {
			root := filepath.Join(dir, name)
			return []string{"-q", "-S", host + ":" + port, "-t", root, filepath.Join(root, "index.php")}
		})
	}
	for _, f := range list {
		f.awaitHandlers(r)
	}
	return list
}

// awaitHandlers returns when honest requests run all handlers.
func (f *framework) awaitHandlers(r *report) {
	r.Helper()
	for _, a := range append(honestAttempts(), attempt{handler: "", honest: spelled("GET", "/login")}) {
		testkit.EventuallyNil(r, fmt.Sprintf("%s runs its handlers", f.name), func() error {
			if ran := f.run(a.honest); ran != a.handler {
				return fmt.Errorf("%q runs %q, want %q", a.honest, ran, a.handler)
			}
			return nil
		})
	}
}

// run sends a request as it is, and returns the handler that it runs, or "".
func (f *framework) run(raw string) string {
	conn, err := (&front{address: f.address}).dial("127.0.0.1")
	if err != nil {
		return ""
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, raw); err != nil {
		return ""
	}
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead}) // the body does not matter
		if err != nil {
			return ""
		}
		if resp.StatusCode != http.StatusContinue {
			return resp.Header.Get("Ran")
		}
	}
}

// tappedFront is the gateway or a proxy in front of a tap.
type tappedFront struct {
	front
	tap     *tap
	clients atomic.Int64
}

// startTappedFronts starts the gateway and the proxies, as they are shipped. HAProxy is told of the
// field that a policy looks at, as its script says.
func startTappedFronts(r *report) []*tappedFront {
	r.Helper()
	binary := proxytest.BuildStint(r)
	config := filepath.Join(r.TempDir(), "stint.yaml")
	if err := os.WriteFile(config, []byte(spellingConfig+frameworkPolicies), 0o600); err != nil {
		r.Fatal(err)
	}
	newFront := func(name string) *tappedFront {
		return &tappedFront{front: front{name: name, address: proxytest.FreeAddress(r)}, tap: newTap(r)}
	}
	gateway := newFront("gateway")
	proxytest.Launch(r, nil, binary, "gateway", "--store", "memory", "--config", config, "--admin", "",
		"--no-access-log",
		"--listen", gateway.address, "--upstream", "http://"+gateway.tap.address,
		"--route", mounted.prefix+"=http://"+gateway.tap.address, "--strip-prefix")
	proxytest.AwaitDial(r, gateway.address)
	fronts := []*tappedFront{gateway}
	shipped := r.TempDir()
	if err := os.CopyFS(shipped, os.DirFS("../examples/proxies")); err != nil {
		r.Fatal(err)
	}
	script := filepath.Join(shipped, "haproxy")
	proxytest.Install(r, script, filepath.Join(script, "stint.lua"), `"x-user-id",`, `"x-user-id", "x-api-key",`)
	for _, p := range []proxytest.Proxy{proxytest.Nginx, proxytest.HAProxy, proxytest.Caddy} {
		f := newFront(p.Name)
		limiter := proxytest.NewStint(r, binary, "--config", config)
		limiter.Start(r)
		p.Start(r, proxytest.Setup{
			Shipped: shipped, Dir: r.TempDir(), Address: f.address, Stint: limiter.Address,
			Application: f.tap.address, Changes: p.Closed,
		})
		fronts = append(fronts, f)
	}
	return fronts
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
func (p *passings) add(f *tappedFront, a attempt, raw string) {
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

// attack has a client of its own use up a limit for each attempt, and keeps what passes then.
func (f *tappedFront) attack(r *report, attempts []attempt, passed *passings) {
	inParallel(len(attempts), func(i int) {
		a := attempts[i]
		client, err := f.spend(a)
		if err != nil {
			r.Errorf("%s: %q: %v", f.name, a.honest, err)
			return
		}
		_, _ = f.send(client, a.request) // whatever it is answered with, or not at all
		requests := f.tap.of(client)[1:]
		if len(requests) == 0 {
			return
		}
		if status, err := f.send(client, a.honest); status == http.StatusOK {
			r.Errorf("%s: %q passes twice: %d, %v", f.name, a.honest, status, err)
		}
		for _, raw := range requests {
			passed.add(f, a, raw)
		}
	})
	for _, raw := range f.tap.of("nobody") {
		r.Errorf("%s: %q arrives without the client's address", f.name, raw)
	}
}

// spend makes the honest request of an attempt once, and returns the client that made it. It starts
// again with another client if the proxy did not wait for stint or for the application.
func (f *tappedFront) spend(a attempt) (client string, err error) {
	network, status := 1, 0
	if a.strict {
		network = 2
	}
	for range tries {
		n := f.clients.Add(1)
		client = fmt.Sprintf("127.%d.%d.%d", network, n/250, 1+n%250)
		if status, err = f.send(client, a.honest); err == nil && status == http.StatusOK && len(f.tap.of(client)) == 1 {
			return client, nil
		}
	}
	return "", fmt.Errorf("the first answer is %d, %v", status, err)
}

// tap is an application that keeps every request as it arrives, byte for byte.
type tap struct {
	address string

	mu       sync.Mutex
	requests map[string][]string // by the client's address
	conns    []net.Conn
}

func newTap(t testing.TB) *tap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &tap{address: listener.Addr().String(), requests: map[string][]string{}}
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

// serve keeps the requests of a connection, and answers all with 200.
func (k *tap) serve(conn net.Conn) {
	var read bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &read))
	for {
		in, err := readArrival(r)
		if err != nil {
			return
		}
		raw := string(read.Next(read.Len() - r.Buffered()))
		client := "nobody"
		if chain := strings.Join(in.header["x-forwarded-for"], ","); chain != "" {
			client = strings.TrimSpace(chain[strings.LastIndexByte(chain, ',')+1:])
		}
		k.mu.Lock()
		k.requests[client] = append(k.requests[client], raw)
		k.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// of returns the requests that came from a client so far.
func (k *tap) of(client string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.requests[client])
}

// leaks say which framework runs which handler for which request, and which fronts let it pass.
type leaks struct {
	mu   sync.Mutex
	rows []string
}

func (l *leaks) add(f *framework, p *passing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fronts := slices.Compact(slices.Sorted(slices.Values(p.fronts)))
	l.rows = append(l.rows, fmt.Sprintf("%-8s %-9s %s through %s", f.name, p.handler, brief(p.request),
		strings.Join(fronts, ", ")))
}

// brief is a request without what most have.
func brief(request string) string {
	usual := strings.NewReplacer(" HTTP/1.1\r\n", "\r\n", "Host: "+anyHost+"\r\n", "", "Content-Length: 0\r\n", "",
		"Connection: close\r\n", "")
	text := fmt.Sprintf("%q", strings.TrimRight(usual.Replace(request), "\r\n"))
	if len(text) > 120 {
		return text[:100] + "…"
	}
	return text
}
