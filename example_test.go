package stint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// In one process, without HTTP: a store in memory and a limiter.
func Example() {
	store, _ := memorystore.New(memorystore.Config{}) // fails only on a mistake in the Config
	defer store.Close()
	lim, err := stint.New(store, stint.PerMinute(2), stint.PerDay(1000))
	if err != nil {
		log.Fatal(err) // a mistake in a limit
	}
	for range 3 {
		d, err := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Remaining(), err) // an error means that the store failed
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// newExample returns a limiter over a store in memory, as [Example] makes one.
func newExample(options ...stint.Option) *stint.Limiter {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	lim, err := stint.New(store, options...)
	if err != nil {
		log.Fatal(err)
	}
	return lim
}

// New reports all mistakes at once, each with valid values.
func ExampleNew() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	_, err := stint.New(store, stint.PerMinute(-1), stint.Per(10, time.Microsecond))
	fmt.Println(err)
	// Output:
	// stint: invalid: Limits[0] (-1/1m): a maximum of -1; want 0 to 9007199254740992
	// Limits[1] (10/1µs): a window of 1µs; want 1ms to 366 days
}

// Wrong: the store keeps the counts, not the limiter. A new store for every request starts empty
// and allows everything.
func ExampleNew_wrong() {
	handle := func() bool {
		store, _ := memorystore.New(memorystore.Config{}) // wrong: make one and keep it
		defer store.Close()
		lim, _ := stint.New(store, stint.PerMinute(1))
		d, _ := lim.Allow(context.Background(), "user:42")
		return d.Allowed
	}
	fmt.Println(handle(), handle(), handle())
	// Output:
	// true true true
}

// A denial is a value: it says which limit denied and when to try again.
func ExampleLimiter_Allow() {
	lim := newExample(stint.PerMinute(1), stint.PerDay(1000))
	for range 2 {
		d, err := lim.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err) // the store failed: nothing was decided
		}
		fmt.Println(d.Allowed, d.Decisive().Limit, d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 1/1m 0s
	// false 1/1m 1m0s
}

// All units or none: a request for 8 takes nothing if 7 are left.
func ExampleLimiter_AllowN() {
	lim := newExample(stint.PerMinute(10))
	for _, n := range []int64{3, 8, 7} {
		d, _ := lim.AllowN(context.Background(), "team:7", n)
		fmt.Println(n, d.Allowed, d.Remaining())
	}
	// Output:
	// 3 true 7
	// 8 false 7
	// 7 true 0
}

// Wait books the earliest time with room and sleeps until then.
func ExampleLimiter_Wait() {
	lim := newExample(stint.Per(4, 100*time.Millisecond))
	start := time.Now()
	for range 5 {
		if _, err := lim.Wait(context.Background(), "igdb:api"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("five calls took at least 100ms:", time.Since(start) >= 100*time.Millisecond)
	// Output:
	// five calls took at least 100ms: true
}

// A call that would have to wait longer than MaxWait fails at once.
func ExampleLimiter_WaitFor() {
	lim := newExample(stint.PerMinute(10))
	for range 2 {
		_, err := lim.WaitFor(context.Background(), stint.Request{
			Claims:  []stint.Claim{{Subject: "igdb:api", Cost: 10}},
			MaxWait: 5 * time.Second,
		})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// rate limit exceeded for key 'igdb:api'
}

// Peek answers as Allow would, and charges nothing.
func ExampleLimiter_Peek() {
	ctx := context.Background()
	lim := newExample(stint.PerMinute(10))
	_, _ = lim.AllowN(ctx, "user:42", 4)
	for range 2 {
		d, _ := lim.Peek(ctx, "user:42")
		fmt.Println(d.Allowed, d.Usages()[0].Used, "used,", d.Remaining(), "left")
	}
	// Output:
	// true 4 used, 6 left
	// true 4 used, 6 left
}

// The work failed, so the caller gets the unit back: once.
func ExampleLimiter_Refund() {
	ctx := context.Background()
	lim := newExample(stint.PerMinute(10))
	d, _ := lim.Allow(ctx, "user:42")
	for range 2 {
		refunded, err := lim.Refund(ctx, d)
		now, _ := lim.Peek(ctx, "user:42")
		fmt.Println(refunded.Changed, err, now.Remaining())
	}
	// Output:
	// true <nil> 10
	// false <nil> 10
}

// The true cost of some requests is known only afterwards: charge an estimate, then settle.
func ExampleLimiter_Settle() {
	ctx := context.Background()
	tokens := newExample(stint.PerMinute(10_000))
	d, _ := tokens.AllowN(ctx, "team:7", 500)
	settled, _ := tokens.Settle(ctx, d, 320)
	now, _ := tokens.Peek(ctx, "team:7")
	fmt.Println(settled.Charged, "charged,", now.Remaining(), "left")
	// Output:
	// 320 charged, 9680 left
}

// Hold keeps a place while something slow runs, here one report at a time.
func ExampleLimiter_Hold() {
	ctx := context.Background()
	lim := newExample(stint.Concurrency(1, time.Minute))
	first, _ := lim.Allow(ctx, "report:7")
	held, release := lim.Hold(ctx, first)
	second, _ := lim.Allow(ctx, "report:7")
	fmt.Println(first.Allowed, second.Allowed, held.Err()) // run the report with the context held
	_ = release()
	third, _ := lim.Allow(ctx, "report:7")
	fmt.Println(third.Allowed)
	// Output:
	// true false <nil>
	// true
}

// A decision that holds no place can be held too: here a repeat, whose first request has the place.
// The same code works while the store is down and every request is allowed.
func ExampleLimiter_Hold_noPlace() {
	ctx := context.Background()
	lim := newExample(stint.Concurrency(1, time.Minute))
	report := stint.Request{Claims: []stint.Claim{{Subject: "report:7", Cost: 1}}, ID: "4711"}
	_, _ = lim.Take(ctx, report)
	again, _ := lim.Take(ctx, report)
	held, release := lim.Hold(ctx, again)
	fmt.Println(again.Allowed, again.Repeat, held.Err(), release())
	// Output:
	// true true <nil> <nil>
}

// Reset forgets what a subject has used.
func ExampleLimiter_Reset() {
	ctx := context.Background()
	lim := newExample(stint.PerDay(1))
	_, _ = lim.Allow(ctx, "user:42")
	before, _ := lim.Peek(ctx, "user:42")
	_ = lim.Reset(ctx, "user:42")
	after, _ := lim.Peek(ctx, "user:42")
	fmt.Println(before.Allowed, after.Allowed)
	// Output:
	// false true
}

// GiveBack subtracts units without the decision that charged them.
func ExampleLimiter_GiveBack() {
	ctx := context.Background()
	lim := newExample(stint.PerDay(100))
	_, _ = lim.AllowN(ctx, "user:42", 80)
	_ = lim.GiveBack(ctx, "user:42", 30)
	d, _ := lim.Peek(ctx, "user:42")
	fmt.Println(d.Remaining())
	// Output:
	// 50
}

// A ban denies a subject everything for some time.
func ExampleLimiter_Ban() {
	ctx := context.Background()
	lim := newExample(stint.PerMinute(100), stint.WithBans(stint.BanPolicy{}))
	_ = lim.Ban(ctx, "ip:203.0.113.9", time.Hour)
	d, _ := lim.Allow(ctx, "ip:203.0.113.9")
	fmt.Println(d.Allowed, d.Banned, d.RetryAfter.Round(time.Minute), d.Err())
	// Output:
	// false true 1h0m0s banned for key 'ip:203.0.113.9'
}

// Unban ends a ban early.
func ExampleLimiter_Unban() {
	ctx := context.Background()
	lim := newExample(stint.PerMinute(100), stint.WithBans(stint.BanPolicy{}))
	_ = lim.Ban(ctx, "ip:203.0.113.9", time.Hour)
	_ = lim.Unban(ctx, "ip:203.0.113.9")
	d, _ := lim.Allow(ctx, "ip:203.0.113.9")
	fmt.Println(d.Allowed, d.Banned)
	// Output:
	// true false
}

// One request may concern several subjects, each with its own limits and cost. All are charged, or
// none.
func ExampleLimiter_Take() {
	lim := newExample(stint.PerMinute(100))
	d, err := lim.Take(context.Background(), stint.Request{
		Claims: []stint.Claim{
			{Subject: "user:42", Cost: 10},
			{Subject: "route:/export", Limits: []stint.Limit{stint.PerSecond(5)}, Cost: 1},
		},
	})
	for _, s := range d.States() {
		fmt.Println(s.Limit, "used", s.Used, err)
	}
	// Output:
	// 100/1m used 10 <nil>
	// 5/1s used 1 <nil>
}

// A request that is sent again with the same ID is charged once.
func ExampleLimiter_Take_requestID() {
	lim := newExample(stint.PerMinute(100))
	for range 2 {
		d, _ := lim.Take(context.Background(), stint.Request{
			Claims: []stint.Claim{{Subject: "user:42", Cost: 10}},
			ID:     "order-7781",
		})
		fmt.Println(d.Allowed, d.Repeat, d.Remaining())
	}
	// Output:
	// true false 90
	// true true 90
}

// ModeReserve books like Wait, and leaves the sleeping to the caller.
func ExampleLimiter_Take_reserve() {
	lim := newExample(stint.PerMinute(1))
	for range 3 {
		d, _ := lim.Take(context.Background(), stint.Request{
			Claims: []stint.Claim{{Subject: "mail:newsletter", Cost: 1}},
			Mode:   stint.ModeReserve,
		})
		fmt.Println(d.Allowed, "in", d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true in 0s
	// true in 1m0s
	// true in 2m0s
}

// ParseLimit reads limits as in configuration files. Its errors include a fix.
func ExampleParseLimit() {
	for _, text := range []string{"100/1m", "10/1m burst 2x", "10/1s burst 25 bucket", "login: 5/15m", "5 per minute"} {
		limit, err := stint.ParseLimit(text)
		fmt.Println(limit, limit.Capacity(), err)
	}
	// Output:
	// 100/1m 100 <nil>
	// 10/1m burst 2x 20 <nil>
	// 10/1s burst 25 bucket 25 <nil>
	// login: 5/15m 5 <nil>
	// 0/0s 0 stint: invalid: limit "5 per minute": write 5/1m
}

// A burst admits more at once, at the same rate in the long run.
func ExampleLimit_BurstTimes() {
	lim := newExample(stint.PerMinute(10).BurstTimes(2))
	first, _ := lim.AllowN(context.Background(), "user:42", 20)
	next, _ := lim.Allow(context.Background(), "user:42")
	fmt.Println(first.Allowed, next.Allowed, next.RetryAfter.Round(time.Second))
	// Output:
	// true false 1m0s
}

// A bucket of 5 tokens that refills one token a second.
func ExampleTokenBucket() {
	now := time.Unix(1_800_000_000, 0)
	store, _ := memorystore.New(memorystore.Config{Now: func() time.Time { return now }})
	defer store.Close()
	lim, _ := stint.New(store, stint.TokenBucket(5, 1, time.Second))
	for range 2 {
		d, _ := lim.AllowN(context.Background(), "user:42", 4)
		fmt.Println(d.Allowed, d.Remaining(), d.RetryAfter)
	}
	now = now.Add(3 * time.Second)
	d, _ := lim.AllowN(context.Background(), "user:42", 4)
	fmt.Println(d.Allowed, d.Remaining())
	// Output:
	// true 1 0s
	// false 1 3s
	// true 0
}

// At most two at the same time. A place that is not given back is free again after a minute.
func ExampleConcurrency() {
	lim := newExample(stint.Concurrency(2, time.Minute))
	for range 3 {
		d, _ := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed) // see Limiter.Hold for how to keep a place and give it back
	}
	// Output:
	// true
	// true
	// false
}

// The third denial within a minute leads to a ban of ten minutes. The next ban lasts an hour.
func ExampleWithBans() {
	lim := newExample(stint.PerMinute(1), stint.WithBans(stint.BanPolicy{
		After: 3, Within: time.Minute,
		Durations: []time.Duration{10 * time.Minute, time.Hour}, Forgive: 24 * time.Hour,
	}))
	for range 5 {
		d, _ := lim.Allow(context.Background(), "ip:203.0.113.9")
		fmt.Println(d.Allowed, d.Banned, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true false 0s
	// false false 1m0s
	// false false 1m0s
	// false true 10m0s
	// false true 10m0s
}

// A limiter logs nothing unless it has a logger. It shortens the keys.
func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "retry_after" {
				return slog.Attr{} // they differ from run to run
			}
			return a
		},
	}))
	lim := newExample(stint.PerMinute(1), stint.WithLogger(logger))
	for range 2 {
		_, _ = lim.Allow(context.Background(), "user:42")
	}
	// Output:
	// level=WARN msg="stint: denied" key=user:42 limit=1/1m unlogged=0
}

// Err turns a denial into an error with the key and the time to wait.
func ExampleDecision_Err() {
	lim := newExample(stint.PerMinute(1))
	for range 2 {
		d, _ := lim.Allow(context.Background(), "igdb:api")
		fmt.Println(d.Err())
	}
	// Output:
	// <nil>
	// rate limit exceeded for key 'igdb:api'
}

// Callers find the key and the time to wait in the error's chain.
func ExampleDeniedError() {
	lim := newExample(stint.PerMinute(1))
	_, _ = lim.Allow(context.Background(), "igdb:api")
	d, _ := lim.Allow(context.Background(), "igdb:api")
	err := fmt.Errorf("fetch the game: %w", d.Err())

	var denied *stint.DeniedError
	if errors.As(err, &denied) {
		fmt.Println(denied.Key, denied.RetryAfter.Round(time.Second))
	}
	// Output:
	// igdb:api 1m0s
}

// Tokens are settled to their true number; the limit on requests keeps counting one.
func ExampleCharge_Part() {
	ctx := context.Background()
	lim := newExample()
	requests, tokens := []stint.Limit{stint.PerMinute(60)}, []stint.Limit{stint.PerDay(10_000)}
	ask := stint.Request{
		Claims: []stint.Claim{
			{Subject: "user:42", Limits: requests, Cost: 1},
			{Subject: "user:42", Scope: "tokens", Limits: tokens, Cost: 500},
		},
	}
	d, _ := lim.Take(ctx, ask)
	d.Charge = d.Charge.Part(1)
	_, _ = lim.Settle(ctx, d, 320)
	ask.Mode = stint.ModePeek
	now, _ := lim.Take(ctx, ask)
	for _, usage := range now.Usages() {
		fmt.Println(usage.Used)
	}
	// Output:
	// 1
	// 320
}

// A stream is admitted before its tokens are known. The limit per day holds the estimate until the
// stream is settled; the limit per minute charges it at once. Heartbeats keep the hold while the
// stream lasts.
func ExampleLimiter_Extend() {
	lim := newExample(stint.PerMinute(100_000), stint.PerDay(2_000_000))
	ctx := context.Background()

	d, _ := lim.Take(ctx, stint.Request{
		Claims: []stint.Claim{{Subject: "key:7", Cost: 4096}},
		Hold:   time.Minute,
	})
	fmt.Println(d.Allowed, d.Usages()[1].Used)

	extended, _ := lim.Extend(ctx, d, 1500) // the tokens so far
	fmt.Println("open:", extended.Changed)

	settled, _ := lim.Settle(ctx, d, 2310)
	fmt.Println("charged:", settled.Charged)
	d, _ = lim.Peek(ctx, "key:7")
	fmt.Println(d.Usages()[0].Used, d.Usages()[1].Used)
	// Output:
	// true 4096
	// open: true
	// charged: 2310
	// 2310 2310
}

// A claim may have several quantities, each under limits with its name.
func ExampleLimiter_Amend() {
	lim := newExample(stint.PerMinute(60).WithName("requests"),
		stint.PerMinute(10_000).WithName("input_tokens"),
		stint.PerDay(50_000).WithName("output_tokens"))
	ctx := context.Background()

	d, _ := lim.Take(ctx, stint.Request{
		Claims: []stint.Claim{{
			Subject: "key:7",
			Costs:   stint.Costs{"requests": 1, "input_tokens": 912, "output_tokens": 4096},
		}},
		Hold: 5 * time.Minute,
	})
	fmt.Println(d.Allowed)
	settled, _ := lim.Amend(ctx, d, stint.Amendment{
		Kind: stint.AmendSettle, Costs: stint.Costs{"input_tokens": 905, "output_tokens": 377}})
	fmt.Println("charged:", settled.Charged)
	d, _ = lim.Peek(ctx, "key:7")
	for _, s := range d.States() {
		fmt.Println(s.Limit.Name, s.Used)
	}
	// Output:
	// true
	// charged: 1282
	// requests 1
	// input_tokens 905
	// output_tokens 377
}

// Charge charges usage that is known only afterwards, in any case.
func ExampleLimiter_Charge() {
	lim := newExample(stint.PerHour(1000))
	ctx := context.Background()

	d, _ := lim.Charge(ctx, stint.Request{Claims: []stint.Claim{{Subject: "job:3", Cost: 1200}}})
	fmt.Println(d.Allowed, d.Usages()[0].Used)
	d, _ = lim.Allow(ctx, "job:3")
	fmt.Println(d.Allowed)
	// Output:
	// true 1200
	// false
}
