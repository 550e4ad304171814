package stint_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// Without it, answers would be the same, and Allow would take twice as long.
func TestAllowAsksTheMemoryStoreTheShorterWay(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	minute, hour, day, week := stint.PerMinute(1), stint.PerHour(2), stint.PerDay(3), stint.Per(4, 168*time.Hour)
	for _, test := range []struct {
		what    string
		store   stint.Store
		options []stint.Option
		want    bool
	}{
		{"one limit", store, []stint.Option{minute}, true},
		{"three limits", store, []stint.Option{minute, hour, day}, true},
		{"four limits", store, []stint.Option{minute, hour, day, week}, false},
		{"bans", store, []stint.Option{minute, stint.WithBans(stint.BanPolicy{})}, true},
		{"another store", struct{ stint.Store }{store}, []stint.Option{minute}, false},
		{"a store that embeds it", struct{ *memorystore.Store }{store}, []stint.Option{minute}, false},
	} {
		lim, err := stint.New(test.store, test.options...)
		if err != nil {
			t.Fatal(err)
		}
		if got := lim.IsPlain(); got != test.want {
			t.Errorf("%s: %v, want %v", test.what, got, test.want)
		}
	}
}
