// Command gorilla limits requests to a gorilla/mux router: each address may make 10 requests per
// minute.
//
//	go run -C examples/routers ./gorilla
//	for i in $(seq 11); do curl -i http://localhost:8080/; done
//
// The first ten responses are 200. The last one is 429, with Retry-After.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/gorilla/mux"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	r := mux.NewRouter()
	r.Use(httplimit.ByIP(stint.PerMinute(10))) // applies only to requests that match a route
	r.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}
