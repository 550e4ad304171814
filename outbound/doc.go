// Package outbound is for programs that call other people's APIs: it keeps the calls of any number
// of processes within the limits of those APIs. Start with [New]; httplimit.NewTransport uses it
// for HTTP.
//
// A [Registry] holds the APIs by name, and a [Client] is the gate in front of one of them:
//
//	igdb := outbound.Presets()["igdb"] // 4 a second
//	apis, err := outbound.New(store, []outbound.API{igdb}, outbound.Config{})
//	...
//	client, err := apis.API("igdb")
//	...
//	if _, err := client.Wait(ctx); err != nil {
//		return err
//	}
//	// call the API
//
// Calls wait for their turn, first come, first served over all processes that share the store. When
// the API itself asks for a pause, [Client.CoolDown] pauses them all: the process that was asked
// stops at once, and writes the pause to the store, where the others find it before their next
// call. Package httplimit has a transport that does both for HTTP.
package outbound
