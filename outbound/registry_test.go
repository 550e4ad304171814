package outbound_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
)

// The presets can be registered, each under its name and with one limit.
func TestPresets(t *testing.T) {
	all := slices.Collect(maps.Values(outbound.Presets()))
	var got []string
	for _, s := range newRegistry(t, newMemory(t), all...).Stats() {
		got = append(got, s.Name+" "+s.Limits[0].String())
	}
	if want := []string{"igdb 4/1s", "musicbrainz 1/1s", "rcsb 3/1s", "spotify 180/1m", "tmdb 40/10s"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// [ExampleNew_mistakes] has more.
func TestMistakesAreAllReported(t *testing.T) {
	one := []stint.Limit{stint.PerSecond(1)}
	tests := []struct {
		api  outbound.API
		want []string
	}{
		{outbound.API{Limits: one}, []string{`API 0 (""): the name is empty; the names in outbound.Presets() are ` +
			"igdb, musicbrainz, rcsb, spotify, tmdb"}},
		{outbound.API{Name: strings.Repeat("n", 65), Limits: one}, []string{"the name is"}},
		{outbound.API{Name: "a", Limits: []stint.Limit{{Max: 1}, {Max: -1, Window: time.Second}}}, []string{
			`API 0 ("a"): Limits[0] (1/0s): a window of 0s`, `API 0 ("a"): Limits[1] (-1/1s): a maximum of -1`,
		}},
		{outbound.API{Name: "a", Limits: one, MaxWait: -1}, []string{"the longest wait is -1ns"}},
		{outbound.API{Name: "a", Limits: one, MaxCooldown: -1}, []string{"the longest pause is -1ns"}},
		{outbound.API{Name: "a", Limits: one, MaxCooldown: 367 * 24 * time.Hour},
			[]string{"the longest pause is 8808h0m0s"}},
		{outbound.API{Name: "a", Limits: one, Retries: -1}, []string{"-1 retries; want 0 to 10"}},
		{outbound.API{Name: "a", Limits: one, Retries: 11}, []string{"11 retries; want 0 to 10"}},
		{outbound.API{Name: "a", Limits: one, Retries: 1, FailFast: true},
			[]string{"1 retries of calls that fail at once"}},
		{outbound.API{Name: "a", Limits: one, Failure: &stint.FailurePolicy{Mode: 9}}, []string{"failure: mode 9"}},
		{outbound.API{Retries: -1, MaxCooldown: -1},
			[]string{"the name is", "-1 retries", "the longest pause", "0 limits"}},
	}
	for _, test := range tests {
		_, err := outbound.New(newMemory(t), []outbound.API{test.api}, outbound.Config{})
		if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
			t.Errorf("%+v: got %v, want a *stint.InvalidError", test.api, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want %q in it", err, want)
			}
		}
	}
	_, err := outbound.New(newMemory(t), []outbound.API{igdb(), {Name: "b"}, igdb()}, outbound.Config{})
	for _, want := range []string{`API 1 ("b"): 0 limits`, `API 2 ("igdb"): duplicate name`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, err := outbound.New(nil, nil, outbound.Config{}); err == nil {
		t.Error("no store, and no error")
	}
}

// [ExampleRegistry_API] has a name that is nearly known.
func TestUnknownAPI(t *testing.T) {
	r := newRegistry(t, newMemory(t), outbound.Presets()["tmdb"], igdb())
	_, err := r.API("spotify")
	want := `stint: invalid: there is no API "spotify"; known: igdb, tmdb`
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = newRegistry(t, newMemory(t)).API("igdb")
	if got, want := err.Error(), `stint: invalid: there is no API "igdb"; none is registered`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := r.API(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a long name is known")
	}
}

func TestUpdate(t *testing.T) {
	api := outbound.API{Name: "igdb", Limits: []stint.Limit{stint.PerHour(2)}, FailFast: true}
	r := newRegistry(t, newMemory(t), api)
	c := clientOf(t, r, "igdb")
	mustWait(t, c)
	update := func(apis ...outbound.API) {
		t.Helper()
		if err := r.Update(apis); err != nil {
			t.Fatal(err)
		}
	}
	// A higher limit takes effect on the next call, with what was used kept.
	api.Limits = []stint.Limit{stint.PerHour(3)}
	tmdb := outbound.Presets()["tmdb"]
	update(api, tmdb)
	api.Limits[0].Max = 1000 // the registry has a copy
	if d := mustWait(t, c); d.Remaining() != 1 {
		t.Errorf("%d remain, want 1 of 3", d.Remaining())
	}
	mustWait(t, clientOf(t, r, "tmdb"))
	// A lower one too.
	api.Limits = []stint.Limit{stint.PerHour(1)}
	update(api)
	_, err := c.Wait(t.Context())
	wantDenied(t, err)
	// One mistake, and all stays as it was.
	if err := r.Update([]outbound.API{tmdb, {Name: "igdb"}}); err == nil {
		t.Error("no limits, and no error")
	}
	if got := r.Stats(); len(got) != 1 || got[0].Name != "igdb" {
		t.Errorf("registered are %+v", got)
	}
	// Gone, and back.
	update(tmdb)
	for range 2 {
		_, err := c.Wait(t.Context())
		_, errPeek := c.Peek(t.Context())
		if !errors.As(err, new(*stint.InvalidError)) || !errors.As(errPeek, new(*stint.InvalidError)) {
			t.Errorf("got %v and %v, want that it is not registered", err, errPeek)
		}
	}
	c.Cooldown(time.Hour)
	if s := c.Stats(); s.Limits != nil || s.Cooldowns != 0 || c.Retries() != 0 {
		t.Errorf("stats are %+v", s)
	}
	api.Limits, api.FailFast, api.Retries = []stint.Limit{stint.PerHour(10)}, false, 2
	update(api)
	if d := mustWait(t, c); d.Remaining() != 7 || c.Retries() != 2 {
		t.Errorf("%d remain, %d retries; want 7, 2", d.Remaining(), c.Retries())
	}
	if again := clientOf(t, r, "igdb"); again != c || c.Stats().Name != "igdb" || c.Stats().Calls != 3 {
		t.Errorf("the client is another one, stats are %+v", c.Stats())
	}
}

// Everything at once: no race, and no caller hangs.
func TestConcurrentUse(t *testing.T) {
	r := newRegistry(t, newMemory(t), igdb())
	c := clientOf(t, r, "igdb")
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for k := range 50 {
				switch (i + k) % 4 {
				case 0:
					_ = r.Update([]outbound.API{{Name: "igdb",
						Limits: []stint.Limit{stint.PerSecond(int64(1000 + k))}}})
				case 1:
					c.Cooldown(time.Millisecond)
				case 2:
					_ = r.Stats()
				default:
					mustWait(t, c)
				}
			}
		})
	}
	work.Wait()
	if s := c.Stats(); s.Calls != 100 || s.Denied+s.Failed != 0 {
		t.Errorf("stats are %+v", s)
	}
}
