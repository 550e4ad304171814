package storetest

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/oracle"
)

// pair runs a store and the reference side by side. The test fails if they differ.
type pair struct {
	stint.Store
	k       *tester
	oracle  *oracle.Store
	charges map[uint64]stint.Charge // the reference's charges, by the ids of the store's charges
}

func (p *pair) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	p.k.Helper()
	want, err := p.oracle.Take(ctx, r)
	if err != nil {
		return want, err
	}
	got, err := p.Store.Take(ctx, r)
	if diff := differ(got, want); err == nil && diff != "" {
		p.k.Fatalf("%s: store and reference differ: %s", describe(r, ""), diff)
	}
	p.charges[got.Charge.Data().ID] = want.Charge
	return got, err
}

func (p *pair) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	p.k.Helper()
	want, err := p.oracle.Amend(ctx, p.charges[c.Data().ID], a)
	if err != nil {
		return want, err
	}
	got, err := p.Store.Amend(ctx, c, a)
	if got != want {
		p.k.Errorf("store and reference differ: amended %+v, want %+v", got, want)
	}
	return got, err
}

// corner returns a check that runs a history on a store and the reference. It is for cases that
// random histories rarely reach.
func corner(name string, under limits, history func(k *tester)) check {
	return clocked(name, under, func(k *tester) {
		k.Store = &pair{k.Store, k, oracle.New(k.Clock.micros), map[uint64]stint.Charge{}}
		history(k)
	})
}

var corners = []check{
	corner("a log with and without slices, with and without a meter", nil, func(k *tester) {
		large, burst, small := stint.PerSecond(1000), stint.PerSecond(60).BurstTimes(3), stint.PerSecond(125)
		for i := range 340 {
			k.under(large).take(1)
			if i%3 == 0 {
				k.under(burst).take(1)
			}
			k.under(small).take(1)
			k.Clock.Advance(5 * ms)
		}
		for range 300 {
			k.under(burst).peek(1)
			k.under(small).peek(1)
			k.Clock.Advance(4 * ms)
		}
	}),
	corner("a burst is in use across a step back of the clock", nil, func(k *tester) {
		plain, burst := stint.PerSecond(5), stint.PerSecond(2).BurstTimes(3)
		k.under(burst).take(5)
		k.after(s).under(plain).take(1)
		k.under(plain).reserve(5, 0)
		k.after(-time.Hour).under(burst).peek(1)
		k.under(plain).take(1)
		k.after(1500 * ms).under(plain).take(1)
		k.under(burst).peek(1)
		k.under(burst).take(1)
		k.after(s).under(burst).take(1)
	}),
	corner("a step back of the clock extends no place beyond a window", limits{stint.Concurrency(2, s)}, func(k *tester) {
		k.take(1)
		k.take(1)
		k.after(-time.Hour).peek(1)
		k.take(1) // denied, but the step back is stored
		k.after(500 * ms).take(1)
		k.after(500 * ms).take(1)
	}),
	corner("hundreds of bookings of all sizes", limits{
		stint.PerSecond(5), stint.PerSecond(300), stint.PerSecond(3).BurstTimes(2),
		stint.TokenBucket(7, 3, 1000003*us),
		fixed(4, s),
	}, func(k *tester) {
		for i := range int64(80) {
			k.reserve(1+i*i%k.limit().Capacity(), 0)
			k.take(1 + i%2)
			k.Clock.Advance(time.Duration(i%7) * 31 * ms)
		}
		for range 50 {
			k.take(1)
			k.Clock.Advance(777 * ms)
		}
	}),
	corner("a bucket in all its fractions", limits{stint.TokenBucket(100, 97, odd)}, func(k *tester) {
		for i := range 300 {
			k.take(int64(i % 13))
			k.Clock.Advance(time.Duration(i*i%99991) * us)
		}
	}),
}
