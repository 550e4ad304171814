package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/stint-limiter/stint/internal/histories"
)

// The models with which docs/scale.md compares decide like the programs that they are named after.
func TestDesigns(t *testing.T) {
	const most, window = 10, 10 * time.Second
	programs := []func() func(key string, n int64) (bool, error){
		func() func(string, int64) (bool, error) {
			store := memory.NewStoreWithOptions(limiter.StoreOptions{})
			return func(key string, n int64) (bool, error) {
				c, err := store.Increment(context.Background(), key, n, limiter.Rate{Limit: most, Period: window})
				return !c.Reached, err
			}
		},
		func() func(string, int64) (bool, error) {
			l := httprate.NewRateLimiter(most, window)
			return func(key string, n int64) (bool, error) {
				r := httptest.NewRequest("GET", "/", nil)
				r = r.WithContext(httprate.WithIncrement(r.Context(), int(n)))
				return !l.OnLimit(httptest.NewRecorder(), r, key), nil
			}
		},
		func() func(string, int64) (bool, error) {
			store, err := memstore.NewCtx(1000)
			if err != nil {
				t.Fatal(err)
			}
			l, err := throttled.NewGCRARateLimiterCtx(store,
				throttled.RateQuota{MaxRate: throttled.PerDuration(most, window), MaxBurst: most - 1})
			if err != nil {
				t.Fatal(err)
			}
			return func(key string, n int64) (bool, error) {
				limited, _, err := l.RateLimitCtx(context.Background(), key, int(n))
				return !limited, err
			}
		},
	}
	for i, open := range programs {
		d := histories.Designs[i]
		t.Run(d.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				program, model := open(), d.New(most, window)
				rng := rand.New(rand.NewPCG(1, 0))
				allowed := 0
				for range 20_000 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(400*time.Millisecond)))
					subject, n := rng.IntN(3), 1+rng.Int64N(2)
					got := model(subject, time.Duration(time.Now().UnixNano()), n)
					want, err := program(fmt.Sprint(subject), n)
					if err != nil || got != want {
						t.Fatalf("%d units of %d at %v: %v, the program says %v, %v", n, subject, time.Now(), got, want, err)
					}
					if got {
						allowed++
					}
				}
				if allowed < 2000 || allowed > 18_000 {
					t.Errorf("%d allowed: hardly anything was compared", allowed)
				}
			})
		})
	}
}
