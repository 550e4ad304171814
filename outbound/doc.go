// Package outbound is for programs that call third-party APIs: it keeps the calls of any number of
// processes within the limits of those APIs. Start with [New]; httplimit.NewTransport uses it for
// HTTP.
//
// An HTTP client that makes at most four calls per second, in order, together with all other
// processes on this Redis server:
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
// When the API itself asks for a pause, [Client.Cooldown] pauses all of them: this process stops at
// once, and writes the pause to the store, where the others find it before their next call. Package
// httplimit has a transport that does both for HTTP.
package outbound
