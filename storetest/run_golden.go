package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
)

func (k *tester) limiter() *stint.Limiter {
	lim, err := stint.New(k.Store, k.limit())
	if err != nil {
		k.Fatal(err)
	}
	return lim
}

// golden contains the golden examples in the requirements, except the fifth, which tests callers of
// a store.
var golden = []check{
	clocked("golden 1: blocking, four at once, the fifth waits", limits{stint.Per(4, s)}, func(k *tester) {
		for i, want := range []time.Duration{0, 0, 0, 0, s - 4*us} {
			d := k.reserve(1, 0)
			k.wantAllowed(d, true)
			k.wantRetry(d, want)
			k.wantUsed(d, int64(min(i+1, 4))) // when the fifth is due, the first has left the window
			k.Clock.Advance(us)
		}
	}),
	// The window is shorter than a second because the test waits for it in real time.
	exact("golden 1 and 4, waiting: no answer counts another's booking", limits{stint.Per(4, 300*ms)}, func(k *tester) {
		limiters := []*stint.Limiter{k.limiter(), k.limiter()}
		var waited time.Duration
		for i := range 5 {
			start := time.Now()
			d, err := limiters[i%2].Wait(k.Context(), k.subject)
			if err != nil || !d.Allowed || d.RetryAfter != 0 || d.Remaining() < 0 {
				k.Fatalf("wait %d: %v, %s", i, err, answer(d))
			}
			if used := d.States()[0].Used; used > 4 || i < 4 && used != int64(i+1) {
				k.Errorf("wait %d: %d of 4 used", i, used)
			}
			waited = time.Since(start)
		}
		if window := k.limit().Window; waited < window/3 {
			k.Errorf("the fifth waited %v, want about %v", waited, window)
		}
	}),
	clocked("golden 2: immediate, the fifth is a typed error", limits{stint.Per(4, s)}, func(k *tester) {
		lim := k.limiter()
		for range 4 {
			if d, err := lim.Allow(k.Context(), k.subject); err != nil || d.Err() != nil {
				k.Fatal(err, d.Err())
			}
		}
		k.Clock.Advance(150 * ms)
		d, err := lim.Allow(k.Context(), k.subject)
		if err != nil {
			k.Fatal(err)
		}
		var denied *stint.DeniedError
		if !errors.As(d.Err(), &denied) || denied.Key != k.subject || denied.RetryAfter != 850*ms {
			k.Errorf("error is %+v, want key %q and retry-after 850ms", d.Err(), k.subject)
		}
		if got, want := d.Err().Error(), fmt.Sprintf("rate limit exceeded for key '%s'", k.subject); got != want {
			k.Errorf("message is %q, want %q", got, want)
		}
	}),
	exact("golden 3: a peek after three", limits{stint.Per(4, s)}, func(k *tester) {
		lim := k.limiter()
		for range 3 {
			if _, err := lim.Allow(k.Context(), k.subject); err != nil {
				k.Fatal(err)
			}
		}
		for range 2 {
			d, err := lim.Peek(k.Context(), k.subject)
			if err != nil || !d.Allowed || d.Remaining() != 1 {
				k.Errorf("error %v, allowed %v, remaining %d, want 1", err, d.Allowed, d.Remaining())
			}
		}
	}),
	clocked("golden 4: two processes in turn", limits{stint.Per(4, s)}, func(k *tester) {
		a, b := k.limiter(), k.limiter()
		for _, lim := range []*stint.Limiter{a, b, a, b} {
			if d, err := lim.Allow(k.Context(), k.subject); err != nil || !d.Allowed {
				k.Fatalf("error %v, %s", err, answer(d))
			}
			k.Clock.Advance(100 * ms)
		}
		d := k.reserve(1, 0)
		k.wantAllowed(d, true)
		k.wantRetry(d, 600*ms)
		k.wantUsed(d, 4) // the last three requests and this one count
		if d.Remaining() != 0 {
			k.Errorf("remaining is %d, want 0", d.Remaining())
		}
	}),
}
