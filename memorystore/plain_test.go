package memorystore_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

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

func openShortly(t *testing.T) storetest.Harness {
	h := open(t)
	h.Store = &shortly{Store: h.Store}
	return h
}

func TestModelOfAllow(t *testing.T) {
	h := openShortly(t)
	storetest.Model(t, func(*testing.T) storetest.Harness { return h })
	if s := h.Store.(*shortly); s.short.Load()*40 < s.asked.Load() {
		t.Errorf("%d of %d requests went through AllowN; want more", s.short.Load(), s.asked.Load())
	}
}

func openGeneral(t *testing.T) storetest.Harness {
	h := open(t)
	h.Store = memorystore.General{Store: h.Store.(*memorystore.Store)}
	return h
}

func TestModelWithoutTakePlain(t *testing.T) { storetest.Model(t, openGeneral) }

// Allow and Take answer alike, whichever way they decide, with room and without, and beside a
// booking.
func TestAllowAndTakeAreTheSame(t *testing.T) {
	for _, limits := range [][]stint.Limit{
		{stint.PerMinute(3)}, {stint.PerMinute(1000)}, {stint.TokenBucket(3, 3, time.Minute)},
		{stint.PerMinute(2).WithBurst(2)}, {stint.PerMinute(3).WithName("login")}, {stint.AtOnce(3, time.Minute)},
		{{Algorithm: stint.AlgorithmFixed, Max: 3, Window: time.Minute}}, {stint.PerMinute(0), stint.PerHour(2)},
		{stint.PerMinute(3), stint.PerHour(4)}, {stint.PerMinute(5), stint.PerHour(3), stint.PerDay(4)},
		{stint.PerMinute(3), stint.PerHour(4).WithName("login")},
		{stint.PerSecond(3), stint.PerMinute(4), stint.PerHour(4), stint.PerDay(4)},
	} {
		allow := decisionsOf(t, limits, func(s stint.Store, r stint.Request) (stint.Decision, error) {
			var options []stint.Option
			for _, l := range limits {
				options = append(options, l)
			}
			lim, err := stint.New(s, options...)
			if err != nil {
				t.Fatal(err)
			}
			return lim.AllowN(t.Context(), r.Claims[0].Subject, r.Claims[0].Cost)
		})
		take := decisionsOf(t, limits, func(s stint.Store, r stint.Request) (stint.Decision, error) {
			return memorystore.General{Store: s.(*memorystore.Store)}.Take(t.Context(), r)
		})
		if !reflect.DeepEqual(allow, take) {
			t.Errorf("%v: Allow answers\n%+v\nTake answers\n%+v", limits, allow, take)
		}
	}
}

// decisionsOf asks a store of its own eight times, and books after the fifth. It leaves out what is
// drawn at random.
func decisionsOf(t *testing.T, limits []stint.Limit,
	ask func(stint.Store, stint.Request) (stint.Decision, error)) (all []stint.Decision) {
	clock := &storetest.Clock{}
	s, err := memorystore.New(memorystore.Config{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 1}}}
	for i := range 8 {
		clock.Advance(time.Second)
		if i == 5 && limits[0].Algorithm != stint.AlgorithmConcurrency {
			booked := r
			booked.Mode = stint.ModeReserve
			if _, err := s.Take(t.Context(), booked); err != nil {
				t.Fatal(err)
			}
		}
		d, err := ask(s, r)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed != (d.Charge.Data().ID != 0) {
			t.Errorf("%v: allowed %v with the charge %d", limits, d.Allowed, d.Charge.Data().ID)
		}
		d.Charge.Data().ID, d.Charge.Data().Generation, d.Charge.Data().Others = 0, 0, nil
		all = append(all, d)
	}
	return all
}
