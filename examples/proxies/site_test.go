package proxies

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint/internal/proxytest"
)

// site is a proxy in front of an application, with a stint to ask.
type site struct {
	stint       *proxytest.Stint
	application *application
	address     string // the proxy's
}

// startSite starts a stint, and a proxy with its shipped configuration or with changes to it: pairs
// of an old and a new text.
func startSite(t *testing.T, limiter *proxytest.Stint, p proxytest.Proxy, changes ...string) *site {
	t.Helper()
	s := &site{stint: limiter, application: newApplication(t), address: proxytest.FreeAddress(t)}
	s.stint.Start(t)
	p.Start(t, proxytest.Setup{
		Shipped: ".", Dir: t.TempDir(), Address: s.address, Stint: s.stint.Address, Application: s.application.address,
		Changes: changes,
	})
	return s
}

// application is what the proxy stands in front of. It keeps what it was asked.
type application struct {
	address string
	close   func()

	mu       sync.Mutex
	requests []request
}

// request is one that the application got.
type request struct {
	method, target, body string
	header               http.Header
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := new(application)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.address, a.close = server.Listener.Addr().String(), server.Close
	return a
}

// ServeHTTP answers /status/<code> with that status, /breakdown not at all, and everything else
// with 200.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.mu.Lock()
	a.requests = append(a.requests, request{r.Method, r.RequestURI, string(body), r.Header})
	a.mu.Unlock()

	if r.URL.Path == "/breakdown" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Application", "yes")
	w.Header().Set("X-RateLimit-Limit", "1000000")
	if code, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
		status, err := strconv.Atoi(code)
		if err != nil {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, "the application's own words") // a client that has gone away needs none
}

// take returns the requests since it was last called.
func (a *application) take() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// arrived returns the requests since take was last called, of which there must be n.
func (a *application) arrived(t *testing.T, n int) []request {
	t.Helper()
	requests := a.take()
	if len(requests) != n {
		t.Fatalf("the application got %d requests, want %d", len(requests), n)
	}
	return requests
}

// client is somebody who asks from an address of this host.
type client struct {
	site    *site
	address string
}

// answer is what curl got.
type answer struct {
	*http.Response
	body string
}

// curl asks the proxy for a path.
func (c client) curl(t *testing.T, path string, args ...string) *answer {
	t.Helper()
	args = append([]string{
		"--silent", "--show-error", "--include", "--max-time", "20", "--interface", c.address,
		"http://" + c.site.address + path,
	}, args...)
	cmd := exec.CommandContext(t.Context(), proxytest.Find(t, "curl", "curl"), args...)
	cmd.Env = []string{} // no proxies of the machine's own
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %s: %v: %s", path, err, &wrong)
	}
	asked := &http.Request{Method: http.MethodGet}
	if slices.Contains(args, "--head") {
		asked.Method = http.MethodHead
	}
	text := bufio.NewReader(bytes.NewReader(out))
	resp, err := http.ReadResponse(text, asked)
	if err != nil {
		t.Fatalf("curl %s: %v: %s", path, err, out)
	}
	if asked.Method == http.MethodHead {
		resp.Body = io.NopCloser(text) // whatever follows is too much
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("curl %s: %v: %s", path, err, out)
	}
	return &answer{resp, string(body)}
}

// exhaust makes n requests, which are allowed.
func (c client) exhaust(t *testing.T, n int, path string, args ...string) {
	t.Helper()
	for range n {
		wantStatus(t, c.curl(t, path, args...), http.StatusOK)
	}
}
