// Command redis allows each user 100 requests per hour and 10 per minute, and anonymous callers the
// same by address. It counts in Redis, so that any number of processes share the limits.
//
//	go run ./examples/redis
//	for i in $(seq 11); do curl -i -u alice: http://localhost:8080/; done
//
// Ten responses are 200. The last one is 429, also after a restart and from another process.
// Without Redis each process counts by itself, until Redis is back.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/stores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := stores.Open(ctx, cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close() // tells Redis what it has missed
	key := httplimit.FirstOf(userOf, httplimit.ClientIP())
	limit := httplimit.By(key, stint.PerMinute(10), stint.PerHour(100), httplimit.WithStore(store),
		httplimit.WithName("api"))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	go func() { log.Fatal(http.ListenAndServe("localhost:8080", limit(mux))) }()
	<-ctx.Done()
}

// userOf returns who is signed in, or "". A real program checks the password. The prefix keeps a
// user who is called ip:203.0.113.9 apart from that address.
func userOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return "user:" + user
	}
	return ""
}
