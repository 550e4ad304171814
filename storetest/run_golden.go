package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
)

// igdb is the limiter of the golden examples: 4 per second.
func (k *tester) igdb() *stint.Limiter {
	lim, err := stint.New(k.Store, stint.Per(4, s))
	if err != nil {
		k.Fatal(err)
	}
	return lim
}

// The golden examples of the requirements. The fifth is about callers, not stores.
var golden = []contract{
	{name: "golden 1: blocking, four at once, the fifth waits", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		for _, want := range []time.Duration{0, 0, 0, 0, s} {
			d := k.reserve(subject, 1, 0, stint.Per(4, s))
			k.wantAllowed(d, true)
			k.wantRetry(d, want)
		}
	}},
	{name: "golden 2: immediate, the fifth is a typed error", exact: true, clock: true, test: func(k *tester) {
		lim, subject := k.igdb(), k.subject()
		for range 4 {
			if d, err := lim.Allow(k.Context(), subject); err != nil || d.Err() != nil {
				k.Fatal(err, d.Err())
			}
		}
		k.Clock.Advance(150 * ms)
		d, err := lim.Allow(k.Context(), subject)
		if err != nil {
			k.Fatal(err)
		}
		var denied *stint.DeniedError
		if !errors.As(d.Err(), &denied) || denied.Key != subject || denied.RetryAfter != 850*ms {
			k.Errorf("error is %+v, want key %q and retry-after 850ms", d.Err(), subject)
		}
		if got, want := d.Err().Error(), fmt.Sprintf("rate limit exceeded for key '%s'", subject); got != want {
			k.Errorf("message is %q, want %q", got, want)
		}
	}},
	{name: "golden 3: a look after three", exact: true, test: func(k *tester) {
		lim, subject := k.igdb(), k.subject()
		for range 3 {
			if _, err := lim.Allow(k.Context(), subject); err != nil {
				k.Fatal(err)
			}
		}
		for range 2 {
			d, err := lim.Peek(k.Context(), subject)
			if err != nil || !d.Allowed || d.Remaining() != 1 {
				k.Errorf("error %v, allowed %v, remaining %d, want 1", err, d.Allowed, d.Remaining())
			}
		}
	}},
	{name: "golden 4: two processes in turn", exact: true, clock: true, test: func(k *tester) {
		a, b, subject := k.igdb(), k.igdb(), k.subject()
		for _, lim := range []*stint.Limiter{a, b, a, b} {
			if d, err := lim.Allow(k.Context(), subject); err != nil || !d.Allowed {
				k.Fatalf("error %v, %s", err, answer(d))
			}
			k.Clock.Advance(100 * ms)
		}
		d := k.reserve(subject, 1, 0, a.Limits()...)
		k.wantAllowed(d, true)
		k.wantRetry(d, 600*ms)
	}},
}
