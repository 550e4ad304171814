// Package outbound keeps calls to other people's APIs within what those allow, over any
// number of processes.
//
// A [Registry] holds the APIs by name, and a [Client] is the gate in front of one of them:
//
//	igdb, _ := outbound.Preset("igdb") // 4 a second
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
// the API itself says to slow down, [Client.CoolDown] pauses them all: the process that was
// told stops at once, and writes the pause to the store, where the others find it before their
// next call. Package httplimit has a transport that does both for HTTP.
package outbound
