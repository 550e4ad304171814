package api

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
)

// away is a store that can be away.
type away struct {
	driver.Keeper
	gone atomic.Bool
}

var errGone = errors.New("gone")

func (a *away) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	if a.gone.Load() {
		return 0, errGone
	}
	return a.Keeper.Keep(ctx, table, rows, seen, missing)
}

func (a *away) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (int64, driver.Rows, error) {
	if a.gone.Load() {
		return 0, 0, errGone
	}
	return a.Keeper.Kept(ctx, table, since, f)
}

// process is one of several that share a store, with a clock that the test moves.
type process struct {
	*keys
	store *away
	clock atomic.Int64 // seconds
}

func (p *process) pass(d time.Duration) { p.clock.Add(int64(d / time.Second)) }

func startProcess(store driver.Keeper) *process {
	p := &process{store: &away{Keeper: store}}
	p.clock.Store(2e9)
	p.keys = newKeys(p.store, slog.New(slog.DiscardHandler))
	p.now = func() time.Time { return time.Unix(p.clock.Load(), 0) }
	return p
}

func sharedStores(t *testing.T) map[string]driver.Keeper {
	memory, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	redis, err := redisstore.Open(t.Context(), redisstore.Config{URL: redistest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Close() })
	return map[string]driver.Keeper{"memory": memory, "redis": redis}
}

func storedCharge() *charged {
	claim := stint.Claim{Subject: "a", Limits: []stint.Limit{stint.PerMinute(9)}, Cost: 1}
	return &charged{Charge: driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 7, At: 8, Generation: 9})}
}

func TestSharedKeys(t *testing.T) {
	for name, store := range sharedStores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			a, b := startProcess(store), startProcess(store)
			opens := func(what string, p *process, text string, want error) {
				t.Helper()
				if _, err := p.open(ctx, text); err != want {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			text := a.textOf(ctx, storedCharge())
			opens("another process", b, text, nil)
			opens("after a restart", startProcess(store), text, nil)

			// What a process charges without the store is signed with its own key.
			c := startProcess(store)
			c.store.gone.Store(true)
			fallback := storedCharge()
			fallback.Data().Fallback = true
			own := c.textOf(ctx, fallback)
			opens("its own", c, own, nil)
			opens("of others, without the store", c, text, errKeysAway)
			b.pass(keysPause)
			opens("of a process without the store", b, own, errNotSigned)
			c.store.gone.Store(false)
			c.pass(keysPause)
			opens("of others, with the store", c, text, nil)
			opens("its own, later", c, own, nil)
			if s := c.signer(ctx, true); s == &c.own {
				t.Error("signs with its own key although the store is there")
			}

			// Keys that were read are used while the store is away.
			b.store.gone.Store(true)
			b.pass(time.Hour)
			opens("known, without the store", b, text, nil)
			b.turn <- struct{}{} // when the table has been read in the background
			<-b.turn
			b.store.gone.Store(false)

			// A new period has a new key, and the old one is still accepted.
			a.pass(keyPeriod)
			before := *a.ring.Load().newest
			a.refresh(ctx)
			if *a.ring.Load().newest == before {
				t.Error("the key is not renewed")
			}
			renewed := a.textOf(ctx, storedCharge())
			opens("of the last period", a, text, nil)
			b.pass(keysPause)
			opens("of a key that is new", b, renewed, nil)
			for range oldKeys + 1 {
				a.pass(keyPeriod)
				a.refresh(ctx)
			}
			if n := len(a.ring.Load().shared); n != oldKeys+1 {
				t.Errorf("%d keys are kept", n)
			}
			opens("of a key that is too old", a, text, errNotSigned)
		})
	}
}
