package start

import (
	"context"
	"log"
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/stores"
)

func stintFirst() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe(addr, httplimit.ByIP(stint.PerMinute(requests))(mux)))
}

func stintRedis() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	store := stores.MustOpen(context.Background(), redisURL)
	log.Fatal(http.ListenAndServe(addr, httplimit.ByIP(stint.PerMinute(requests), httplimit.WithStore(store))(mux)))
}

func stintUser() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe(addr, httplimit.By(userOf, stint.PerMinute(requests))(mux)))
}
