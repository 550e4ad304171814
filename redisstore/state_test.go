package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/storetest"
)

// clockedStores are stores over one server with one clock.
func clockedStores(t *testing.T, server *redistest.Server, n int) ([]*redisstore.Store, *storetest.Clock) {
	clock := &storetest.Clock{}
	var stores []*redisstore.Store
	for range n {
		s := open(t, server.URL())
		s.SetClock(clock.Now)
		stores = append(stores, s)
	}
	return stores, clock
}

// What no longer counts takes no memory for long, and a limit that is asked about no more goes.
func TestStatesShrink(t *testing.T) {
	server := redistest.Start(t)
	stores, clock := clockedStores(t, server, 1)
	day, minute, second := stint.PerDay(1000), stint.PerMinute(100), stint.PerSecond(50)
	take := func(limits ...stint.Limit) {
		t.Helper()
		clock.Advance(time.Millisecond)
		admit(t, stores[0], unit("a", limits...))
	}
	size := func() int {
		return testkit.Must(strconv.Atoi(strings.TrimSpace(server.CLI(t, "STRLEN", "stint:{a}:limits"))))(t)
	}
	take(day, minute)
	small := size()
	take(day, minute, second)
	for range 80 {
		take(day, minute)
	}
	if full := size(); full < 700 {
		t.Fatalf("80 requests of a minute take %d bytes", full)
	}
	clock.Advance(2 * time.Minute)
	take(day, minute)
	if n := size(); n > small+250 {
		t.Errorf("two minutes later it takes %d bytes, want no more than the day needs: %d and an entry or two", n, small)
	}
	if directory := server.CLI(t, "GETRANGE", "stint:{a}:limits", "1", "1"); directory[0] != 2 {
		t.Errorf("the state has %d limits, want 2: nobody asks about the third", directory[0])
	}
}

// A value that was damaged, or is not ours, is replaced: nobody gets an error.
func TestDamagedStates(t *testing.T) {
	server := redistest.Start(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	ctx := t.Context()
	limits := []stint.Limit{stint.PerMinute(100), stint.PerHour(1000).BurstTimes(2),
		stint.TokenBucket(10, 10, time.Second)}
	r := unit("a", limits...)
	booking := r
	booking.Mode = stint.ModeReserve
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 150 {
		server.CLI(t, "DEL", "stint:{a}:limits")
		var d stint.Decision
		for range 1 + rng.IntN(40) {
			d = take(t, s, r)
		}
		if rng.IntN(2) == 0 {
			take(t, s, booking)
		}
		value := testkit.Must(c.Do(ctx, c.B().Get().Key("stint:{a}:limits").Build()).AsBytes())(t)
		what := "cut"
		if rng.IntN(3) == 0 {
			value = value[:rng.IntN(len(value))]
		} else {
			what = "changed at"
			for range 1 + rng.IntN(3) {
				i := rng.IntN(len(value))
				if rng.IntN(2) == 0 {
					i = rng.IntN(min(len(value), 160)) // where it matters
				}
				value[i] = byte(rng.IntN(256))
				what += fmt.Sprint(" ", i)
			}
		}
		if err := c.Do(ctx, c.B().Set().Key("stint:{a}:limits").Value(string(value)).Px(time.Hour).Build()).
			Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Inspect(ctx, r.Claims[0]); err != nil {
			t.Errorf("round %d, %s: inspect: %v", round, what, err)
		}
		if d.Charge.Data().ID != 0 {
			if _, err := s.Amend(ctx, d.Charge, settle(rng.Int64N(3))); err != nil {
				t.Errorf("round %d, %s: settle: %v", round, what, err)
			}
		}
		for _, mode := range []stint.Mode{stint.ModeTake, stint.ModePeek, stint.ModeReserve, stint.ModeTake} {
			if _, err := s.Take(ctx, stint.Request{Claims: r.Claims, Mode: mode}); err != nil {
				t.Errorf("round %d, %s: mode %d: %v", round, what, mode, err)
			}
		}
	}
}

// More limits on one subject than a directory that is told can name: slower, and right.
func TestManyLimitsInOneState(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	for round := range int64(2) {
		for i := range 35 { // more than 27
			l := stint.Per(10, time.Duration(i+100)*time.Second)
			d := admit(t, s, unit("a", l, l.BurstTimes(2).WithName("b")))
			if d.Usages()[0].Used != round+1 {
				t.Fatalf("%s: %v; want %d used", l, d.Usages(), round+1)
			}
		}
	}
}
