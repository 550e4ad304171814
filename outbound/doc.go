// Package outbound limits calls to third-party APIs, so that all processes together stay within the
// limits of each API. Start with [New]; httplimit.NewTransport uses this package for HTTP.
//
// The following HTTP client, together with those in all other processes on the same Redis server,
// makes at most four calls per second, in order:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	apis, err := outbound.New(store, []outbound.API{outbound.Presets()["igdb"]}, outbound.Config{})
//	...
//	igdb, err := apis.API("igdb")
//	...
//	client := &http.Client{Transport: httplimit.NewTransport(igdb, nil)}
//	resp, err := client.Get("https://api.igdb.com/v4/games")
//
// A [Registry] holds the APIs by name, and a [Client] limits the calls to one of them. An API of
// your own is outbound.API{Name: "maps", Limits: []stint.Limit{stint.PerSecond(10)}}. If calls are
// neither HTTP nor gRPC, wait before each:
//
//	if _, err := igdb.Wait(ctx); err != nil {
//		return err
//	}
//
// Calls wait for their turn, first come, first served across all processes that share the store.
// When the API asks for a pause, [Client.Cooldown] pauses all calls to it. This process stops at
// once, and writes the pause to the store, where the other processes find it before their next
// call. For HTTP, the transport of package httplimit waits for turns and calls Cooldown.
package outbound
