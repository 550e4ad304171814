// Command nethttp allows each address 10 requests per minute, counted in memory.
//
//	go run ./examples/nethttp
//	for i in $(seq 11); do curl -i http://localhost:8080/; done
//
// The first ten responses are 200, with X-RateLimit-Remaining. The last one is 429, with
// Retry-After.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("localhost:8080", httplimit.ByIP(stint.PerMinute(10))(mux)))
}
