// Command outbound calls an API that allows five calls per second, and never exceeds that rate:
// each call waits for its turn. It makes ten calls, and prints the time at which each call reaches
// the API. The sixth arrives a second after the first.
//
//	go run ./examples/outbound
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

func main() {
	store, err := memorystore.New(memorystore.Config{}) // for several processes, use Redis: see ../redis
	check(err)
	apis, err := outbound.New(store, []outbound.API{
		{Name: "weather", Limits: []stint.Limit{stint.PerSecond(5), stint.PerDay(10_000)}},
	}, outbound.Config{})
	check(err)
	weather, err := apis.API("weather")
	check(err)
	client := &http.Client{Transport: httplimit.NewTransport(weather, nil)}

	start := time.Now()
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Printf("%v  GET %s\n", time.Since(start).Round(time.Millisecond), r.URL)
	}))
	for i := range 10 {
		resp, err := client.Get(fmt.Sprint(api.URL, "/forecast/", i+1))
		check(err)
		check(resp.Body.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
