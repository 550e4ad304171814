package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/gateway"
	"github.com/stint-limiter/stint/policy"
)

// named is an upstream that answers with its name and the path that it was asked for.
func named(t *testing.T, name string) string {
	t.Helper()
	return upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name+" "+r.RequestURI) }).URL
}

// swap puts a configuration in force.
func swap(t *testing.T, guard *policy.Guard, text string) {
	t.Helper()
	conf, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	guard.Swap(conf.Set)
}

// Routes of the configuration are followed: the next request goes where the new ones say, and one
// that is under way ends where it began.
func TestRoutesOfTheConfiguration(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	slow := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-leave
		io.WriteString(w, "slow "+r.RequestURI)
	}).URL
	a, b := named(t, "a"), named(t, "b")
	guard := guardOf(t, open+"gateway: {routes: [{upstream: '"+a+"'}, {path: /slow/**, upstream: '"+slow+"'}]}\n")
	g, err := gateway.New(guard, config.Gateway{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	front := serve(t, g)
	get := func(path string) string {
		t.Helper()
		_, body := do(t, "GET", front.URL+path, nil)
		return body
	}
	if got, want := get("/x"), "a /x"; got != want {
		t.Errorf("at first: got %q, want %q", got, want)
	}
	underWay := make(chan string)
	go func() { underWay <- get("/slow/x") }()
	receive(t, "the request", arrived)
	swap(t, guard, open+"gateway: {routes: [{path: [/x/**, /slow/**], upstream: '"+b+"', strip_prefix: true}]}\n")
	for path, want := range map[string]string{"/x/y": "b /y", "/slow/x": "b /x"} {
		if got := get(path); got != want {
			t.Errorf("afterwards, %s: got %q, want %q", path, got, want)
		}
	}
	if got := get("/other"); !strings.Contains(got, `"no_route"`) {
		t.Errorf("without a route: got %q", got)
	}
	close(leave)
	if got, want := receive(t, "the response", underWay), "slow /slow/x"; got != want {
		t.Errorf("under way: got %q, want %q", got, want)
	}
}

// What a Config says goes before what a configuration says.
func TestConfigGoesFirst(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	text := open + "gateway: {routes: [{upstream: '" + b + "'}], max_body: 3}\n"
	c := to(a)
	for _, test := range []struct {
		maxBody int64
		want    int
	}{{0, 413}, {4, 200}} {
		c.MaxBody = test.maxBody
		resp, body := do(t, "POST", serve(t, newGateway(t, text, c)).URL+"/x", strings.NewReader("four"))
		if resp.StatusCode != test.want || test.want == 200 && body != "a /x" {
			t.Errorf("MaxBody %d: got %d, %q; want %d", test.maxBody, resp.StatusCode, body, test.want)
		}
	}
}

// Times are the route's own, else those of the Config, else those of the configuration.
func TestTimeouts(t *testing.T) {
	silent := upstream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).URL
	route := "{upstream: '" + silent + "'"
	for name, test := range map[string]struct {
		text string
		c    config.Gateway
	}{
		"of a route": {"routes: [" + route + ", response_timeout: 1ms}], response_timeout: 1h",
			config.Gateway{ResponseHeaderTimeout: time.Hour}},
		"of the Config": {"routes: [" + route + "}], response_timeout: 1h",
			config.Gateway{ResponseHeaderTimeout: time.Millisecond}},
		"of the configuration": {"routes: [" + route + "}], response_timeout: 1ms", config.Gateway{}},
	} {
		resp, body := do(t, "GET", serve(t, newGateway(t, open+"gateway: {"+test.text+"}\n", test.c)).URL, nil)
		if resp.StatusCode != 504 {
			t.Errorf("%s: got %d, %s; want 504", name, resp.StatusCode, body)
		}
	}
}

// A client that is silent in the middle of its body is waited for as long as the configuration
// says.
func TestBodyTimeoutOfTheConfiguration(t *testing.T) {
	u := upstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }).URL
	g := serve(t, newGateway(t, open+"gateway: {routes: [{upstream: '"+u+"'}], body_timeout: 20ms}\n",
		config.Gateway{}))
	got := talk(t, dial(t, g.Listener.Addr().String()), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	if !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, `"error":"request_timeout"`) {
		t.Errorf("got %s", got)
	}
}
