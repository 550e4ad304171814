package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

// A client of an API that is held to the API's limits. Its callers need no change.
func ExampleNewTransport() {
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a game")
	}))
	defer remote.Close()

	store, err := memorystore.New(memorystore.Config{}) // or one in Redis, for many processes
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	igdb := outbound.Presets()["igdb"]
	apis, err := outbound.New(store, []outbound.API{igdb}, outbound.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer apis.Close()
	api, err := apis.API("igdb")
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: httplimit.NewTransport(api, nil)}
	defer client.CloseIdleConnections()

	start := time.Now()
	for range 5 {
		resp, err := client.Get(remote.URL)
		if err != nil {
			log.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Println(string(body))
	}
	fmt.Println("the fifth waited:", time.Since(start) >= time.Second)
	// Output:
	// a game
	// a game
	// a game
	// a game
	// a game
	// the fifth waited: true
}

// The API says to slow down. From then on nobody in the fleet calls it until the pause is over.
func ExampleNewTransport_slowDown() {
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer remote.Close()
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	tmdb := outbound.Presets()["tmdb"]
	tmdb.MaxWait = 5 * time.Second
	apis, _ := outbound.New(store, []outbound.API{tmdb}, outbound.Config{})
	defer apis.Close()
	api, _ := apis.API("tmdb")
	client := &http.Client{Transport: httplimit.NewTransport(api, nil)}
	defer client.CloseIdleConnections()

	resp, err := client.Get(remote.URL)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println(resp.Status)
	_, err = client.Get(remote.URL)
	fmt.Println(errors.Is(err, outbound.ErrCoolingDown))
	// Output:
	// 429 Too Many Requests
	// true
}
