package memorystore_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

func open(t *testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	s := testkit.Opened(memorystore.New(memorystore.Config{Now: clock.Now}))(t)
	return storetest.Harness{Store: s, Clock: clock, Disturbances: map[string]func(testing.TB){
		"what has expired is swept": func(testing.TB) { s.Sweep() },
	}}
}

func TestContract(t *testing.T) { storetest.Run(t, open) }

// TestModel runs the model through every way in: Take, Take without TakePlain, and Limiter.AllowN
// where that decides the same, alternately.
func TestModel(t *testing.T) {
	testkit.SkipUnderRace(t)
	var ways *alternating
	storetest.Model(t, func(t *testing.T) storetest.Harness {
		h := open(t)
		ways = &alternating{Store: h.Store.(*memorystore.Store)}
		h.Store = ways
		return h
	})
	if ways.short*100 < ways.asked {
		t.Errorf("%d of %d requests went through AllowN; want more", ways.short, ways.asked)
	}
}

type alternating struct {
	*memorystore.Store
	asked, short int
}

func (s *alternating) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	s.asked++
	switch {
	case s.asked%3 == 0:
		return memorystore.General{Store: s.Store}.Take(ctx, r)
	case s.asked%3 == 1 || len(r.Claims) == 0 || !reflect.DeepEqual(r, stint.Request{Claims: []stint.Claim{{
		Subject: r.Claims[0].Subject, Limits: r.Claims[0].Limits, Cost: r.Claims[0].Cost}}, Bans: r.Bans}):
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
	s.short++
	return lim.AllowN(ctx, r.Claims[0].Subject, r.Claims[0].Cost)
}

func TestLinearizable(t *testing.T) {
	storetest.Linearizable(t, testkit.Opened(memorystore.New(memorystore.Config{}))(t)) // on the real clock
}
