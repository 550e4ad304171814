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
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/stores"
)

func main() {
	store, err := stores.Open(context.Background(), "redis") // $REDIS_URL, or localhost
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	key := httplimit.FirstOf(userOf, httplimit.ClientIP())
	limit := httplimit.By(key, stint.PerMinute(10), stint.PerHour(100), httplimit.WithStore(store),
		httplimit.WithName("api"))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("localhost:8080", limit(mux)))
}

// userOf returns who is signed in, or "". A real program checks the password. The prefix keeps a
// user who is called ip:203.0.113.9 apart from that address.
func userOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return "user:" + user
	}
	return ""
}
