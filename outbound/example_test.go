package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

// Calls wait until the API may be called. With a store in Redis all processes share the limits.
func Example() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	apis, err := outbound.New(store, []outbound.API{outbound.Presets()["igdb"]}, outbound.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer apis.Close()
	igdb, _ := apis.API("igdb")
	d, err := igdb.Wait(context.Background())
	fmt.Println("call the API,", d.Remaining(), "left,", err)
	// Output:
	// call the API, 3 left, <nil>
}

// The error lists every mistake and how to fix it.
func ExampleNew_mistakes() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	_, err := outbound.New(store, []outbound.API{
		{Name: "my api", Limits: []stint.Limit{stint.Concurrency(5, time.Minute)}},
		{Name: "igdb"},
	}, outbound.Config{})
	fmt.Println(err)
	// Output:
	// stint: invalid: API 0 ("my api"): the name is "my api"; want 1 to 64 letters, digits, '_', '-' or '.'
	// API 0 ("my api"): 5/1m concurrency is a concurrency limit; want none, because nothing reports when a call has ended
	// API 1 ("igdb"): 0 limits; want 1 to 16
}

// Programs can adapt a preset.
func ExamplePresets() {
	tmdb := outbound.Presets()["tmdb"]
	tmdb.MaxWait = 5 * time.Second
	fmt.Println(tmdb.Name, tmdb.Limits, tmdb.MaxWait)
	// Output:
	// tmdb [40/10s] 5s
}

// For an unknown name, the error lists the registered ones.
func ExampleRegistry_API() {
	apis, stop := registry(outbound.Presets()["igdb"], outbound.Presets()["tmdb"])
	defer stop()
	_, err := apis.API("idgb")
	fmt.Println(err)
	// Output:
	// stint: invalid: there is no API "idgb" (did you mean "igdb"?); known: igdb, tmdb
}

// New limits apply to the next call, and earlier calls still count.
func ExampleRegistry_Update() {
	weather := outbound.API{Name: "weather", Limits: []stint.Limit{stint.PerDay(10)}}
	apis, stop := registry(weather)
	defer stop()
	client, _ := apis.API("weather")
	_, _ = client.Wait(context.Background())
	weather.Limits = []stint.Limit{stint.PerDay(100)}
	fmt.Println(apis.Update([]outbound.API{weather}))
	d, _ := client.Peek(context.Background())
	fmt.Println(d.Remaining())
	// Output:
	// <nil>
	// 99
}

// A call that would have to wait longer than MaxWait fails at once. The error reports when to try
// again.
func ExampleClient_Wait() {
	weather := outbound.API{Name: "weather", Limits: []stint.Limit{stint.PerMinute(1)}, MaxWait: time.Second}
	apis, stop := registry(weather)
	defer stop()
	client, _ := apis.API("weather")
	for range 2 {
		_, err := client.Wait(context.Background())
		var denied *stint.DeniedError
		if errors.As(err, &denied) {
			fmt.Println(err, denied.RetryAfter.Round(time.Second))
		}
	}
	// Output:
	// rate limit exceeded for key 'weather:api' 1m0s
}

// A call to a language model waits until its estimate fits into a limit on tokens.
func ExampleClient_WaitFor() {
	tokens := stint.PerMinute(1000)
	tokens.Name = "tokens"
	apis, stop := registry(outbound.API{Name: "model", Limits: []stint.Limit{stint.PerMinute(60), tokens},
		FailFast: true})
	defer stop()
	client, _ := apis.API("model")
	for range 2 {
		_, err := client.WaitFor(context.Background(), stint.Costs{"tokens": 600})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// rate limit exceeded for key 'model:api'
}

// A call is charged its actual usage.
func ExampleClient_Settle() {
	tokens := stint.PerMinute(1000)
	tokens.Name = "tokens"
	apis, stop := registry(outbound.API{Name: "model", Limits: []stint.Limit{tokens}})
	defer stop()
	client, _ := apis.API("model")
	d, err := client.WaitFor(context.Background(), stint.Costs{"tokens": 600})
	fmt.Println(d.Remaining(), err)
	err = client.Settle(context.Background(), d, stint.Costs{"tokens": 250})
	left, _ := client.Peek(context.Background())
	fmt.Println(left.Remaining(), err)
	// Output:
	// 400 <nil>
	// 750 <nil>
}

// Peek reports whether a call would be made at once. It charges nothing.
func ExampleClient_Peek() {
	apis, stop := registry(outbound.Presets()["igdb"])
	defer stop()
	client, _ := apis.API("igdb")
	for range 2 {
		d, err := client.Peek(context.Background())
		fmt.Println(d.Allowed, d.Remaining(), err)
	}
	// Output:
	// true 4 <nil>
	// true 4 <nil>
}

// After the API asks to slow down, no process calls it for a while.
func ExampleClient_Cooldown() {
	tmdb := outbound.Presets()["tmdb"]
	tmdb.MaxWait = time.Second
	apis, stop := registry(tmdb)
	defer stop()
	client, _ := apis.API("tmdb")
	client.Cooldown(30 * time.Second)
	_, err := client.Wait(context.Background())
	fmt.Println(err, errors.Is(err, outbound.ErrCoolingDown))
	// Output:
	// outbound: the API asked for a pause: rate limit exceeded for key 'tmdb:api' true
}

// registry returns APIs over a store in memory.
func registry(list ...outbound.API) (apis *outbound.Registry, stop func()) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	apis, err = outbound.New(store, list, outbound.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return apis, func() {
		apis.Close()
		_ = store.Close()
	}
}
