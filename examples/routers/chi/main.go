// Command chi limits requests to a chi router: each address may make 10 requests per minute, at
// most 3 of them to /login.
//
//	go run -C examples/routers ./chi
//	for i in $(seq 4); do curl -i -X POST http://localhost:8080/login; done
//
// The first three responses are 200. The last one is 429, with Retry-After and X-RateLimit-Policy:
// login.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	r := chi.NewRouter()
	r.Use(httplimit.ByIP(stint.PerMinute(10)))
	r.Get("/", hello)
	r.With(httplimit.ByIP(stint.PerMinute(3), httplimit.WithName("login"))).Post("/login", hello)
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }
