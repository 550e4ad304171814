package e2e

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

// TestD5PresetsOfKnownAPIs: a configuration names every API of the documents, and calls are limited
// as its preset says.
func TestD5PresetsOfKnownAPIs(t *testing.T) {
	want := map[string]string{
		"igdb": "[4/1s]", "musicbrainz": "[1/1s]", "tmdb": "[40/10s]", "spotify": "[180/1m]", "rcsb": "[3/1s]"}
	yaml := five + "outbound:\n"
	for name := range want {
		yaml += fmt.Sprintf("  %s: {preset: %s, fail_fast: true}\n", name, name)
	}
	c, err := config.Load(file(t, "stint.yaml", yaml))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(outbound.Presets()); got != len(want) || len(c.Outbound) != len(want) {
		t.Errorf("%d presets, %d APIs in the configuration; want %d", got, len(c.Outbound), len(want))
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		apis, err := outbound.New(store, c.Outbound, outbound.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer apis.Close()
		for _, api := range c.Outbound {
			if got := fmt.Sprint(api.Limits); got != want[api.Name] {
				t.Errorf("%s has %s, want %s", api.Name, got, want[api.Name])
			}
			client, err := apis.API(api.Name)
			if err != nil {
				t.Fatal(err)
			}
			for range api.Limits[0].Max {
				if _, err := client.Wait(t.Context()); err != nil {
					t.Errorf("%s: %v", api.Name, err)
				}
			}
			var denied *stint.DeniedError
			if _, err := client.Wait(t.Context()); !errors.As(err, &denied) || denied.Key != api.Name+":api" {
				t.Errorf("%s: one call too many: %v", api.Name, err)
			}
		}
	})
}
