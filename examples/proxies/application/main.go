// Command application is the server that run.sh puts behind a proxy. It replies with the request
// that it received.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	log.Fatal(http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s from %s, user %q\n", r.Method, r.URL, r.Header["X-Forwarded-For"], r.Header["X-User-Id"])
	})))
}
