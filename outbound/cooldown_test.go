package outbound_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// All processes pause when one is told to, and go on when the pause is over.
func TestCooldownPausesTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		fast := igdb()
		fast.FailFast = true
		told, other, hasty := newClient(t, store, igdb()), newClient(t, store, igdb()), newClient(t, store, fast)
		start := time.Now()
		told.Cooldown(30 * time.Second)
		synctest.Wait()
		_, err := hasty.Wait(t.Context())
		if got := wantDenied(t, err); got != 30*time.Second || !errors.Is(err, outbound.ErrCoolingDown) {
			t.Errorf("got %v, to retry after %v", err, got)
		}
		if got, want := err.Error(), "outbound: the API asked for a pause: rate limit exceeded for key 'igdb:api'"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, c := range []*outbound.Client{told, hasty} {
			if got := c.Stats().CoolingUntil; !got.Equal(start.Add(30 * time.Second)) {
				t.Errorf("cooling until %v, want 30s", got)
			}
		}
		var calls sync.WaitGroup
		for _, c := range []*outbound.Client{told, other} {
			calls.Go(func() { wantCallAt(t, c, start, 30*time.Second) })
		}
		calls.Wait()
		mustWait(t, hasty)
		for i, want := range []int64{1, 0, 0} {
			c := []*outbound.Client{told, other, hasty}[i]
			if s := c.Stats(); !s.CoolingUntil.IsZero() || s.Cooldowns != want {
				t.Errorf("process %d: %+v", i, s)
			}
		}
	})
}

func TestCooldownNeverShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		first, second := newClient(t, store, igdb()), newClient(t, store, igdb())
		start := time.Now()
		first.Cooldown(time.Minute)
		synctest.Wait()
		first.Cooldown(time.Second)
		second.Cooldown(time.Second) // it does not know better
		time.Sleep(2 * time.Second)
		for _, c := range []*outbound.Client{second, first} {
			wantCallAt(t, c, start, time.Minute)
		}
	})
}

func TestCooldownIsBounded(t *testing.T) {
	tests := []struct {
		max, asked, want time.Duration
	}{
		{0, time.Minute, time.Minute},
		{0, 1 << 62, 15 * time.Minute},
		{0, 0, time.Millisecond},
		{0, -time.Hour, time.Millisecond},
		{0, 1234567 * time.Nanosecond, 1235 * time.Microsecond},
		{time.Second, time.Minute, time.Second},
		{20 * time.Minute, time.Hour, 20 * time.Minute},
	}
	for _, test := range tests {
		testkit.InBubble(t, test.max.String()+" "+test.asked.String(), func(t *testing.T) {
			api := igdb()
			api.MaxCooldown = test.max
			store := newMemory(t)
			c, other := newClient(t, store, api), newClient(t, store, api)
			start := time.Now()
			c.Cooldown(test.asked)
			synctest.Wait()
			wantCallAt(t, c, start, test.want)
			wantCallAt(t, other, start, test.want)
		})
	}
}

// A place that a pause overtook goes back to the limit, whether the process was told of the pause
// itself, and no other knows, or learned of it from the store.
func TestOvertakenPlaceIsGivenBack(t *testing.T) {
	for name, alone := range map[string]bool{"told": true, "heard": false} {
		testkit.InBubble(t, name, func(t *testing.T) {
			store := &flaky{Store: newMemory(t)}
			store.down.Store(alone)
			api := outbound.API{Name: "igdb", Limits: []stint.Limit{stint.Per(1, 20*time.Second)}}
			told := newClient(t, store, api)
			caller := told
			if !alone {
				caller = newClient(t, store, api)
			}
			start := time.Now()
			mustWait(t, caller)
			time.AfterFunc(15*time.Second, func() { told.Cooldown(10 * time.Second) })
			wantCallAt(t, caller, start, 25*time.Second)
		})
	}
}

func TestManyCooldownsAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: newMemory(t)}
		c := newClient(t, store, igdb())
		var answers sync.WaitGroup
		for range 100 {
			answers.Go(func() { c.Cooldown(time.Minute) })
		}
		answers.Wait()
		synctest.Wait()
		if got := store.commands.Load(); got != 1 {
			t.Errorf("%d writes, want 1", got)
		}
		// Prolonged a little, again and again, by answers that come in within 50 ms.
		for range 50 {
			time.Sleep(time.Millisecond)
			c.Cooldown(time.Minute)
		}
		time.Sleep(time.Second)
		if got := store.commands.Load(); got != 2 {
			t.Errorf("%d writes, want 2", got)
		}
		if got := c.Stats().Cooldowns; got != 1 {
			t.Errorf("%d pauses, want 1", got)
		}
		other := newClient(t, store, igdb())
		start := time.Now()
		mustWait(t, other)
		if got, want := time.Since(start), 59*time.Second; got != want {
			t.Errorf("the other process called after %v, want %v", got, want)
		}
	})
}

// Close tells what is untold once more, and leaves no goroutine: synctest would see it.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: newMemory(t)}
		r := newRegistry(t, store, igdb())
		c := clientOf(t, r, "igdb")
		store.down.Store(true)
		c.Cooldown(time.Minute)
		synctest.Wait()
		store.down.Store(false)
		start := time.Now()
		r.Close()
		r.Close()
		if got := store.commands.Load(); got != 2 || time.Since(start) != 0 {
			t.Errorf("%d attempts, closed after %v; want 2, at once", got, time.Since(start))
		}
		c.Cooldown(2 * time.Minute) // still applied, but not shared
		mustWait(t, newClient(t, store, igdb()))
		mustWait(t, c)
		if got := time.Since(start); got != 2*time.Minute || store.commands.Load() != 2 {
			t.Errorf("called after %v, %d attempts; want 2m, 2", got, store.commands.Load())
		}
	})
}
