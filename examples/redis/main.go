// Command redis allows each user 100 requests per hour and 10 per minute, and limits anonymous
// callers in the same way by address. It counts in Redis, so that any number of processes share the
// limits.
//
//	go run ./examples/redis
//	for i in $(seq 11); do curl -i -u alice: http://localhost:8080/; done
//
// The first ten responses are 200. The last one is 429. Requests after a restart, or to another
// process, are denied too. Without Redis, each process counts by itself until Redis is back.
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
	defer store.Close() // sends Redis the charges that it missed
	key := httplimit.FirstOf(userOf, httplimit.ClientIP())
	limit := httplimit.By(key, stint.PerMinute(10), stint.PerHour(100), httplimit.WithStore(store),
		httplimit.WithName("api"))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	go func() { log.Fatal(http.ListenAndServe("localhost:8080", limit(mux))) }()
	<-ctx.Done()
}

// userOf returns the signed-in user, or "". A real program checks the password. The prefix
// distinguishes a user named ip:203.0.113.9 from that address.
func userOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return "user:" + user
	}
	return ""
}
