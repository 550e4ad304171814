package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

// Calls to two APIs, one of which is known by name. With a store in Redis all processes share the
// limits.
func Example() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	igdb := outbound.Presets()["igdb"]
	weather := outbound.API{
		Name:    "weather",
		Limits:  []stint.Limit{stint.PerSecond(10), stint.PerDay(10_000)},
		MaxWait: 5 * time.Second,
	}
	apis, err := outbound.New(store, []outbound.API{igdb, weather}, outbound.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer apis.Close()

	client, err := apis.API("igdb")
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := client.Wait(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("call the API,", d.Remaining(), "left")
	}
	_, err = apis.API("wether")
	fmt.Println(err)
	// Output:
	// call the API, 3 left
	// call the API, 2 left
	// call the API, 1 left
	// stint: invalid: there is no API "wether" (did you mean "weather"?); known: igdb, weather
}

// An API that does not let calls wait fails them with an error that says when to try again.
func ExampleAPI_failFast() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	music := outbound.Presets()["musicbrainz"]
	music.FailFast = true
	apis, _ := outbound.New(store, []outbound.API{music}, outbound.Config{})
	defer apis.Close()
	client, _ := apis.API("musicbrainz")

	_, err := client.Wait(context.Background())
	fmt.Println(err)
	_, err = client.Wait(context.Background())
	var denied *stint.DeniedError
	fmt.Println(err, errors.As(err, &denied) && denied.RetryAfter <= time.Second)
	// Output:
	// <nil>
	// rate limit exceeded for key 'musicbrainz:api' true
}

// The API said to slow down: nobody calls it for a while, in any process.
func ExampleClient_CoolDown() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	tmdb := outbound.Presets()["tmdb"]
	tmdb.MaxWait = time.Second
	apis, _ := outbound.New(store, []outbound.API{tmdb}, outbound.Config{})
	defer apis.Close()
	client, _ := apis.API("tmdb")

	client.CoolDown(30 * time.Second)
	_, err := client.Wait(context.Background())
	fmt.Println(errors.Is(err, outbound.ErrCoolingDown))
	fmt.Println(err)
	// Output:
	// true
	// outbound: the API asked for a pause: rate limit exceeded for key 'tmdb:api'
}

// A limit of calls at the same time is refused: nobody says when a call has ended.
func ExampleNew_mistakes() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	_, err := outbound.New(store, []outbound.API{
		{Name: "my api", Limits: []stint.Limit{stint.AtOnce(5, time.Minute)}},
		{Name: "igdb"},
	}, outbound.Config{})
	fmt.Println(err)
	// Output:
	// stint: invalid: API 0 ("my api"): the name is "my api"; want 1 to 64 letters, digits, '_', '-' or '.'
	// API 0 ("my api"): 5/1m concurrency is a concurrency limit; want none, because nothing reports when a call has ended
	// API 1 ("igdb"): 0 limits; want 1 to 16
}
