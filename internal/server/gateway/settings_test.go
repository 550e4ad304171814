package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

// named is an upstream that answers with its name, and with the host and the path that it was asked
// for.
func named(t *testing.T, name string) string {
	t.Helper()
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, name+" "+r.Host+" "+r.RequestURI)
	}).URL
}

// swap puts a configuration in force.
func swap(t *testing.T, guard *policy.Guard, text string) {
	t.Helper()
	_ = guard.Replace(guardtest.Parse(t, text))
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
	front := serve(t, gatewayOver(t, guard, config.Gateway{}))
	get := func(path string) string {
		t.Helper()
		_, body := do(t, "GET", front.URL+path, nil, "Host: h")
		return body
	}
	if got, want := get("/x"), "a h /x"; got != want {
		t.Errorf("at first: got %q, want %q", got, want)
	}
	underWay := make(chan string)
	go func() { underWay <- get("/slow/x") }()
	receive(t, "the request", arrived)
	swap(t, guard, open+"gateway: {routes: [{path: [/x/**, /slow/**], upstream: '"+b+"', strip_prefix: true}]}\n")
	for path, want := range map[string]string{"/x/y": "b h /y", "/slow/x": "b h /x"} {
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
