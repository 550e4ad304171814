// Command workers calls an API that allows four calls per second, together with a worker in another
// language, worker.sh: both wait in one queue, in Redis. It also runs a fake API, which asks for a
// pause once, and prints the time at which each call arrives.
//
//	examples/workers/run.sh
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/stores"
)

const calls = 12 // number of calls that each worker makes

func main() {
	store, err := stores.Open(context.Background(), os.Getenv("REDIS_URL"))
	check(err)
	defer store.Close()
	apis, err := outbound.New(store, []outbound.API{
		{Name: "igdb", Limits: []stint.Limit{stint.PerSecond(4)}, Retries: 3,
			Failure: &stint.FailurePolicy{Budget: 5 * time.Second}}, // wait for Redis, as in stint.yaml
	}, outbound.Config{})
	check(err)
	defer apis.Close()
	igdb, err := apis.API("igdb")
	check(err)
	client := &http.Client{Transport: httplimit.NewTransport(igdb, nil)}

	listener, err := net.Listen("tcp", os.Getenv("API"))
	check(err)
	theirs := &pretend{start: time.Now(), done: make(chan struct{})}
	go func() { check(http.Serve(listener, theirs)) }()
	for i := range calls {
		resp, err := client.Get(fmt.Sprintf("http://%s/go/%d", listener.Addr(), i+1))
		check(err)
		check(resp.Body.Close())
	}
	<-theirs.done
	fmt.Printf("%d calls in %v\n", 2*calls, time.Since(theirs.start).Round(time.Millisecond))
}

// pretend is the fake API.
type pretend struct {
	start  time.Time
	mu     sync.Mutex
	served int
	paused bool
	done   chan struct{}
}

func (p *pretend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		return // run.sh checks that the API is up
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(p.start).Round(time.Millisecond)
	if !p.paused && strings.HasPrefix(r.URL.Path, "/curl/") {
		p.paused = true
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Printf("%v  GET %s: too many, a pause of a second\n", at, r.URL)
		return
	}
	fmt.Printf("%v  GET %s\n", at, r.URL)
	if p.served++; p.served == 2*calls {
		close(p.done)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
