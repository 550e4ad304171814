package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
)

// left returns how many requests a caller has left after a request, which must be allowed.
func left(t *testing.T, response *http.Response) int64 {
	t.Helper()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %d, want 200", response.StatusCode)
	}
	return seconds(t, response.Header, "X-RateLimit-Remaining")
}

// TestE1IDsOfAnyNode: a request id is charged once, whichever node it reaches and whichever port
// its Host header names.
func TestE1IDsOfAnyNode(t *testing.T) {
	policies := "store: {url: \"" + redistest.Start(t).URL() + `"}
request_id: {header: Idempotency-Key}
failure: {budget: 10s}
tiers: [{name: all, identity: ip, limits: 10/1h}]
`
	nodes := []string{proxied(t, policies, served), proxied(t, policies, served)}
	ask := func(node int, host, id string) int64 {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, nodes[node]+"/pay",
			strings.NewReader("1 EUR"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, _ := exchange(t, r, "Idempotency-Key: "+id)
		return left(t, response)
	}
	for i, c := range []struct {
		node     int
		host, id string
		want     int64
	}{
		{0, "api.example.com", "a", 9},
		{0, "api.example.com:443", "a", 9},
		{1, "api.example.com:8443", "a", 9},
		{1, "API.example.com", "a", 9},
		{1, "api.example.com", "b", 8},
		{0, "api.example.com:80", "b", 8},
		{0, "other.example.com", "b", 7},
	} {
		if got := ask(c.node, c.host, c.id); got != c.want {
			t.Errorf("%d, node %d, %s with the id %s: %d left, want %d", i, c.node, c.host, c.id, got, c.want)
		}
	}
}

// TestE1RefundOfARepeatedID: a request that fails is refunded, unless its id was repeated: the
// repeats were served for its charge.
func TestE1RefundOfARepeatedID(t *testing.T) {
	const policies = `
tiers: [{name: all, identity: ip, limits: 10/1h}]
policies: [{name: pay, match: {path: /pay}, request_id: {header: Idempotency-Key}, refund: 5xx}]
`
	begun, end := make(chan bool), make(chan bool)
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			begun <- true
			<-end
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	for what, url := range map[string]string{
		"gateway": proxied(t, policies, upstream), "middleware": inProgram(t, policies, upstream),
	} {
		fail := func(id string, meanwhile func()) {
			t.Helper()
			failed := make(chan int)
			go func() {
				response, _ := fetch(t, http.MethodPost, url+"/pay", "", "Idempotency-Key: "+id, "X-Fail: 1")
				failed <- response.StatusCode
			}()
			<-begun
			meanwhile()
			end <- true
			if got := <-failed; got != http.StatusInternalServerError {
				t.Errorf("%s: got %d, want 500", what, got)
			}
		}
		look := func(when string, want int64) {
			t.Helper()
			response, _ := fetch(t, http.MethodGet, url+"/", "")
			if got := left(t, response); got != want {
				t.Errorf("%s: %d left %s, want %d", what, got, when, want)
			}
		}
		look("at first", 9)
		fail("a", func() {})
		look("after a refund", 8)
		fail("b", func() {
			response, _ := fetch(t, http.MethodPost, url+"/pay", "", "Idempotency-Key: b")
			if got := left(t, response); got != 7 {
				t.Errorf("%s: a repeat leaves %d, want 7", what, got)
			}
		})
		look("after the failure of a request that was repeated", 6)
	}
}

// clicks has ids derived on one route, for a short time.
const clicks = `
client_ip: {trusted_proxies: loopback}
tiers: [{name: all, identity: ip, limits: 100/1h}]
policies: [{name: order, match: {path: /order}, request_id: {header: Idempotency-Key, derive: %s}}]
`

// TestE1bDoubleClicks are charged once without the client's help, on the routes that want it,
// whichever node they reach, and both are served with their bodies.
func TestE1bDoubleClicks(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	policies := fmt.Sprintf(clicks, "10s")
	shared := "store: {url: \"" + redistest.Start(t).URL() + "\"}\nfailure: {budget: 10s}\n" + policies
	for what, urls := range map[string][2]string{
		"two gateways": {proxied(t, shared, upstream), proxied(t, shared, upstream)},
		"middleware":   {inProgram(t, policies, upstream)},
	} {
		if urls[1] == "" {
			urls[1] = urls[0]
		}
		click := func(node int, caller, target, body string, fields ...string) int64 {
			t.Helper()
			response, got := fetch(t, http.MethodPost, urls[node]+target, body,
				append(fields, "X-Forwarded-For: "+caller)...)
			if got != body {
				t.Errorf("%s: the application got %q, want %q", what, got, body)
			}
			return left(t, response)
		}
		for i, c := range []struct {
			node                 int
			caller, target, body string
			want                 int64
		}{
			{0, "192.0.2.1", "/order?cart=1", "two apples", 99},
			{1, "192.0.2.1", "/order?cart=1", "two apples", 99},  // the second click
			{0, "192.0.2.1", "/order?cart=1", "three pears", 98}, // another order
			{0, "192.0.2.1", "/order?cart=2", "two apples", 97},  // another cart
			{1, "192.0.2.2", "/order?cart=1", "two apples", 99},  // another caller
			{0, "192.0.2.1", "/browse", "page 1", 96},            // another route
			{0, "192.0.2.1", "/browse", "page 1", 95},
		} {
			if got := click(c.node, c.caller, c.target, c.body); got != c.want {
				t.Errorf("%s, %d: %s leaves %d, want %d", what, i, c.target, got, c.want)
			}
		}
		// An id that the client sends is used instead.
		for i, want := range []int64{94, 94, 93} {
			if got := click(i%2, "192.0.2.1", "/order", "same",
				"Idempotency-Key: "+[]string{"a", "a", "b"}[i]); got != want {
				t.Errorf("%s: the id of click %d leaves %d, want %d", what, i, got, want)
			}
		}
		// Repeats are bounded: the ninth is charged, and those after it.
		for i := range 12 {
			want := int64(99 - max(0, i-8))
			if got := click(i%2, "192.0.2.3", "/order", "again"); got != want {
				t.Errorf("%s: repeat %d leaves %d, want %d", what, i, got, want)
			}
		}
	}
}

// TestE1bLifeIsShort: the same request after its time is another one.
func TestE1bLifeIsShort(t *testing.T) {
	t.Parallel()
	url := proxied(t, fmt.Sprintf(clicks, "500ms"), served)
	for i, want := range []int64{99, 98} {
		response, _ := fetch(t, http.MethodPost, url+"/order", "body")
		if got := left(t, response); got != want {
			t.Errorf("%d: %d left, want %d", i, got, want)
		}
		time.Sleep(600 * time.Millisecond)
	}
}

// TestE1bForwardAuthSeesNoBodies, so that no two requests are taken for one, and the log says so.
func TestE1bForwardAuthSeesNoBodies(t *testing.T) {
	r := start(t, fmt.Sprintf(clicks, "10s"))
	for _, want := range []int64{99, 98} {
		response, _ := fetch(t, http.MethodGet, r.api+"/auth", "", "X-Forwarded-Method: POST",
			"X-Forwarded-Uri: /order",
			"X-Forwarded-For: 192.0.2.1")
		if got := left(t, response); got != want {
			t.Errorf("%d left, want %d", got, want)
		}
	}
	if n := strings.Count(r.log.String(), "forward-auth does not see the bodies of requests"); n != 1 {
		t.Errorf("the log says %d times that no ids are derived, want once", n)
	}
}
