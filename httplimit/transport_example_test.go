package httplimit_test

import (
	"errors"
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

// A client that stays within the limits of an API. Its callers need no change.
func ExampleNewTransport() {
	remote := httptest.NewServer(hello)
	defer remote.Close()
	games := newAPI(outbound.API{Name: "games", Limits: []stint.Limit{stint.Per(2, 100*time.Millisecond)}})
	client := &http.Client{Transport: httplimit.NewTransport(games, nil)}

	start := time.Now()
	for range 3 {
		resp, err := client.Get(remote.URL)
		if err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println("the third waited:", time.Since(start) >= 100*time.Millisecond)
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
	// the third waited: true
}

// The API asks to slow down. Until the pause is over, no process that shares the store calls it.
func ExampleNewTransport_slowDown() {
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer remote.Close()
	tmdb := outbound.Presets()["tmdb"]
	tmdb.MaxWait = 5 * time.Second
	client := &http.Client{Transport: httplimit.NewTransport(newAPI(tmdb), nil)}

	resp, err := client.Get(remote.URL)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	_, err = client.Get(remote.URL)
	fmt.Println(resp.Status, errors.Is(err, outbound.ErrCoolingDown))
	// Output:
	// 429 Too Many Requests true
}

// newAPI returns the client of one API over a store in memory. Programs with several processes
// share a store in Redis.
func newAPI(api outbound.API) *outbound.Client {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	apis, err := outbound.New(store, []outbound.API{api}, outbound.Config{Logger: discard})
	if err != nil {
		log.Fatal(err)
	}
	client, err := apis.API(api.Name)
	if err != nil {
		log.Fatal(err)
	}
	return client
}
