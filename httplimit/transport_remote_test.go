package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// pipes is a network within the process: unlike that of the system, synctest can tell when nothing
// happens on it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// servePiped serves HTTP over pipes until the test ends.
func servePiped(t *testing.T, h http.Handler) *pipes {
	t.Helper()
	network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h, ErrorLog: silent}
	served := make(chan error)
	go func() { served <- server.Serve(network) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return network
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remote is a foreign API: it counts its requests and answers them by its script, whose last line
// repeats.
type remote struct {
	http.RoundTripper
	mu     sync.Mutex
	script []func(http.ResponseWriter)
	at     []time.Duration // when requests came in, since the start
	bodies []string
}

// newRemote serves HTTP over pipes.
func newRemote(t *testing.T, script ...func(http.ResponseWriter)) *remote {
	t.Helper()
	r, start := &remote{script: script}, time.Now()
	network := servePiped(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		line := min(len(r.at), len(r.script)-1)
		r.at, r.bodies = append(r.at, time.Since(start)), append(r.bodies, string(body))
		r.mu.Unlock()
		r.script[line](w)
	}))
	client := &http.Transport{DialContext: network.dial}
	t.Cleanup(client.CloseIdleConnections)
	r.RoundTripper = client
	return r
}

func (r *remote) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at)
}

func answerFine(w http.ResponseWriter) { fmt.Fprint(w, "fine") }

// answerWith answers with a status and header fields, given as name, value and so on.
func answerWith(status int, fields ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, http.StatusText(status))
	}
}

func igdb() outbound.API {
	return outbound.API{Name: "igdb", Limits: []stint.Limit{stint.PerSecond(4)}}
}

// gate is the client of the only API of a process.
type gate struct {
	*outbound.Client
	apis *outbound.Registry
}

func (g gate) Stats() outbound.Stats { return g.apis.Stats()[0] }

// newProcess is a process that calls an API over a store.
func newProcess(t *testing.T, store stint.Store, api outbound.API, base http.RoundTripper) (*http.Client, gate) {
	t.Helper()
	apis := testkit.Must(outbound.New(store, []outbound.API{api}, outbound.Config{Logger: discard}))(t)
	t.Cleanup(apis.Close)
	c := testkit.Must(apis.API(api.Name))(t)
	return &http.Client{Transport: httplimit.NewTransport(c, base)}, gate{c, apis}
}

// callRemote calls the API and returns the status.
func callRemote(t *testing.T, c *http.Client) int {
	t.Helper()
	resp, _ := fetch(t, c.Transport, outgoing(t, "GET", "http://igdb.test/games", nil))
	return resp.StatusCode
}

// watched is a body that is watched.
type watched struct {
	io.Reader
	read, closed atomic.Int64
}

func (b *watched) Read(p []byte) (int, error) {
	b.read.Add(1)
	return b.Reader.Read(p)
}

func (b *watched) Close() error {
	b.closed.Add(1)
	return nil
}

// wantTimes checks when requests reached the API.
func wantTimes(t *testing.T, r *remote, want ...time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.at, want) {
		t.Fatalf("requests at %v, want %v", r.at, want)
	}
}
