// Command login limits a login form by address and by account, in one decision: an address has 20
// attempts a minute, and an account 5 per 15 minutes, from any address. If one of the limits denies
// an attempt, the other is not charged.
//
//	go run ./examples/login
//	for i in 1 2 3 4 5 6; do curl -si -d email=ann@example.com localhost:8080/login | head -1; done
//
// The sixth attempt on the account is denied; an attempt on another account from the same address
// is not.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
)

func main() {
	limit := httplimit.ByIP(stint.PerMinute(20),
		httplimit.AndBy("account", httplimit.FormField("email"), stint.Per(5, 15*time.Minute)))
	mux := http.NewServeMux()
	mux.Handle("POST /login", limit(http.HandlerFunc(login)))
	server := &http.Server{Addr: "localhost:8080", Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// login checks a password. It can read the form, although FormField has read it before.
func login(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "the password of %s is wrong\n", r.PostFormValue("email"))
}
