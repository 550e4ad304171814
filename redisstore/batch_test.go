package redisstore_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/storetest"
)

// crowded is a store whose every request travels in a batch, between others.
type crowded struct {
	*redisstore.Store
	n atomic.Int64
}

func (c *crowded) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	call := &driver.Call{Request: r}
	c.TakeBatch(ctx, []*driver.Call{call})
	return call.Decision, call.Err
}

func (c *crowded) TakeBatch(ctx context.Context, batch []*driver.Call) {
	other := func() *driver.Call {
		return &driver.Call{Request: unit(fmt.Sprintf("other:%d", c.n.Add(1)%10), stint.PerSecond(3))}
	}
	c.Store.TakeBatch(ctx, slices.Concat([]*driver.Call{other(), other()}, batch, []*driver.Call{other()}))
}

// window is that of most limits that are drawn. Redis forgets keys by its own clock, which does not
// stand still with that of the test, so on a busy machine a second would be too short.
const window = 100 * time.Second

// anyRequest draws a request of one of a few subjects, often equal to others.
func anyRequest(t *rapid.T, prefix string) stint.Request {
	limits := rapid.SampledFrom([][]stint.Limit{
		{stint.Per(3, window)},
		{stint.Per(7, window), stint.Per(400, 60*window)},
		{stint.Per(200, window)},
		{stint.TokenBucket(5, 2, window)},
		{stint.Concurrency(2, window)},
		{{Max: 6, Window: window, Algorithm: stint.AlgorithmFixed}},
	}).Draw(t, "limits")
	r := stint.Request{Claims: []stint.Claim{{
		Subject: prefix + rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "subject"),
		Limits:  limits,
		Cost:    rapid.SampledFrom([]int64{1, 1, 1, 2, 0, 40}).Draw(t, "cost"),
		Shared:  rapid.IntRange(0, 3).Draw(t, "shared") == 3,
	}}}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		r.ID = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "id")
	case 1:
		r.Bans = &stint.BanPolicy{After: 2, Within: window, Durations: []time.Duration{window}}
	case 2:
		r.Bans = &stint.BanPolicy{}
	case 3:
		r.Mode = stint.ModePeek
	case 4:
		if limits[0].Algorithm != stint.AlgorithmConcurrency {
			r.Mode = stint.ModeReserve
		}
	case 5:
		r.Claims = append(r.Claims, unit(prefix+"c", stint.Per(9, window)).Claims...)
	case 6:
		if r.Claims[0].Cost > 0 && limits[0].Algorithm != stint.AlgorithmConcurrency {
			r.Terms().Fit = true
		}
	case 7:
		if r.Claims[0].Cost > 0 && (limits[0].Algorithm == stint.AlgorithmSliding ||
			limits[0].Algorithm == stint.AlgorithmFixed) {
			r.Terms().Lease = window / 10
		}
	case 8:
		r.Mode = driver.ModeForce
	}
	return r
}

// A batch answers as its requests would one after the other, at the same instant.
func TestABatchIsItsRequestsInOrder(t *testing.T) {
	url := redistest.Start(t).URL()
	inOrder(t, url)
	wantTTLs(t, client(t, url))
}

// On a Cluster too, where no node knows the script.
func aBatchIsItsRequestsInOrder(t *testing.T, cluster *redistest.Cluster) {
	inOrder(t, cluster.URL(), cluster.Nodes...)
}

func inOrder(t *testing.T, url string, nodes ...*redistest.Server) {
	clock := &storetest.Clock{}
	one, other := open(t, url, prefixed("one")), open(t, url, prefixed("other"))
	for _, node := range nodes {
		node.CLI(t, "SCRIPT", "FLUSH")
	}
	one.SetClock(clock.Now)
	other.SetClock(clock.Now)
	var round atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		prefix := fmt.Sprintf("%d:", round.Add(1))
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			var batch []*driver.Call
			for range rapid.IntRange(1, 30).Draw(t, "calls") {
				r := anyRequest(t, prefix)
				if len(nodes) > 0 {
					r.Claims = r.Claims[:1] // which are decided in no order
				}
				for range rapid.SampledFrom([]int{1, 1, 2, 5}).Draw(t, "equal") {
					batch = append(batch, &driver.Call{Request: r})
				}
			}
			ctx, cancel := context.Background(), func() {}
			if rapid.Bool().Draw(t, "connections of its own") {
				ctx, cancel = context.WithTimeout(ctx, time.Minute)
			}
			one.TakeBatch(ctx, batch)
			cancel()
			for i, call := range batch {
				if call.Err != nil {
					t.Fatalf("call %d: %v", i, call.Err)
				}
				want, err := other.Take(context.Background(), call.Request)
				if err != nil {
					t.Fatal(err)
				}
				got := call.Decision
				if (got.Charge.Data().ID == 0) != (want.Charge.Data().ID == 0) {
					t.Fatalf("call %d: charge %v, want %v", i, got.Charge, want.Charge)
				}
				got.Charge.Data().ID, want.Charge.Data().ID = 0, 0
				for _, c := range []*stint.Charge{&got.Charge, &want.Charge} { // generations are random
					c.Data().Generation = 0
					if c.Data().Others != nil {
						c.Data().Others.Generations = nil
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("call %d of %d, %+v:\n got %+v\nwant %+v", i, len(batch), call.Request, got, want)
				}
			}
			clock.Advance(time.Duration(rapid.IntRange(0, 700).Draw(t, "pass")) * window / 1000)
		}
	})
}
