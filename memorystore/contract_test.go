package memorystore_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

func open(t *testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	s, err := memorystore.New(memorystore.Config{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return storetest.Harness{Store: s, Clock: clock, Disturbances: map[string]func(testing.TB){
		"what has expired is swept": func(testing.TB) { s.Sweep() },
	}}
}

func TestContract(t *testing.T) { storetest.Run(t, open) }

// TestModel also runs the model without TakePlain, and through Limiter.AllowN where that decides
// the same.
func TestModel(t *testing.T) {
	t.Run("take", func(t *testing.T) { storetest.Model(t, open) })
	t.Run("without TakePlain", func(t *testing.T) {
		storetest.Model(t, func(t *testing.T) storetest.Harness {
			h := open(t)
			h.Store = memorystore.General{Store: h.Store.(*memorystore.Store)}
			return h
		})
	})
	t.Run("AllowN", func(t *testing.T) {
		h := open(t)
		s := &shortly{Store: h.Store}
		h.Store = s
		storetest.Model(t, func(*testing.T) storetest.Harness { return h })
		if s.short.Load()*40 < s.asked.Load() {
			t.Errorf("%d of %d requests went through AllowN; want more", s.short.Load(), s.asked.Load())
		}
	})
}

// shortly is a store that is asked through a limiter's AllowN, where that is the same.
type shortly struct {
	stint.Store
	asked, short atomic.Int64
}

func (s *shortly) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.asked.Add(1)
	if len(r.Claims) == 0 || !reflect.DeepEqual(r, stint.Request{Claims: []stint.Claim{{
		Subject: r.Claims[0].Subject, Limits: r.Claims[0].Limits, Cost: r.Claims[0].Cost}}, Bans: r.Bans}) {
		return s.Store.Take(ctx, r)
	}
	var options []stint.Option
	for _, l := range r.Claims[0].Limits {
		options = append(options, l)
	}
	if r.Bans != nil {
		options = append(options, stint.WithBans(*r.Bans))
	}
	lim, err := stint.New(s.Store, options...)
	if err != nil {
		return stint.Decision{}, err
	}
	s.short.Add(1)
	return lim.AllowN(ctx, r.Claims[0].Subject, r.Claims[0].Cost)
}

func TestLinearizable(t *testing.T) {
	s, err := memorystore.New(memorystore.Config{}) // on the real clock
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for range 5 {
		storetest.Linearizable(t, s)
	}
}
