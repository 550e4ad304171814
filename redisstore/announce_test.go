package redisstore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// ear hears what is announced.
type ear struct {
	t     *testing.T
	s     *redisstore.Store
	heard chan string
}

func listen(t *testing.T, s *redisstore.Store, f func(subject string)) *ear {
	t.Helper()
	e := &ear{t, s, make(chan string, 10_000)}
	go func() {
		_ = s.Announcements(t.Context(), func(subject string, _ bool) {
			f(subject)
			e.heard <- subject
		})
	}()
	for subject := ""; subject == ""; { // until it listens
		e.mark("begin")
		select {
		case subject = <-e.heard:
		case <-time.After(20 * time.Millisecond):
		}
	}
	e.sinceLast()
	return e
}

func (e *ear) mark(name string) {
	e.t.Helper()
	command(e.t, e.s, stint.Command{Kind: stint.CommandUnban, Subject: name})
}

// sinceLast returns all that was announced since it was last asked.
func (e *ear) sinceLast() (all []string) {
	e.t.Helper()
	e.mark("end")
	for subject := <-e.heard; subject != "end"; subject = <-e.heard {
		if subject != "begin" {
			all = append(all, subject)
		}
	}
	return all
}

// counted counts requests to a store, and leaves its announcements to the test if that has a
// channel for them.
type counted struct {
	*redisstore.Store
	takes    atomic.Int64
	announce chan func(subject string, commanded bool)
}

func (c *counted) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if c.announce == nil {
		return c.Store.Announcements(ctx, f)
	}
	c.announce <- f
	<-ctx.Done()
	return ctx.Err()
}

func (c *counted) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c.takes.Add(1)
	return c.Store.Take(ctx, r)
}

func (c *counted) TakeBatch(ctx context.Context, batch []*driver.Call) {
	c.takes.Add(int64(len(batch)))
	c.Store.TakeBatch(ctx, batch)
}

// Nobody is denied from memory who got room by a refund elsewhere.
func TestNoRefundIsMissed(t *testing.T) {
	server := redistest.Start(t)
	elsewhere := open(t, server.URL())
	for _, limits := range [][]stint.Limit{
		{stint.PerHour(1)},
		{stint.Per(7, 3*time.Second)},
		{stint.TokenBucket(10, 7, time.Second)},
		{{Max: 8, Window: 2 * time.Second, Algorithm: stint.AlgorithmFixed}, stint.PerHour(12)},
		{stint.Per(5, time.Second).BurstTimes(2)},
	} {
		store := &counted{Store: open(t, server.URL()), announce: make(chan func(string, bool), 1)}
		cache := stackOver(t, store,
			resilience.Config{NoLeases: true, Failure: stint.FailurePolicy{Mode: stint.FailError}})
		announce := <-store.announce
		e := listen(t, store.Store, func(subject string) { announce(subject, false) })
		request := unit(limits[0].String(), limits...)
		var charges []stint.Charge
		fromMemory, rand := 0, rand.New(rand.NewPCG(1, 2))
		for range 400 {
			half := limits[0].Capacity() / 2
			request.Claims[0].Cost = []int64{1, max(1, half), half + 1, half + 1 + half/2}[rand.IntN(4)]
			switch n := rand.IntN(10); {
			case n < 2 && len(charges) > 0:
				i := rand.IntN(len(charges))
				amend(t, elsewhere, charges[i], settle(rand.Int64N(2)))
				charges = slices.Delete(charges, i, i+1)
				e.sinceLast()
			case n < 4:
				if d := take(t, elsewhere, request); d.Allowed {
					charges = append(charges, d.Charge)
				}
			}
			request.Mode = stint.ModePeek
			look := take(t, elsewhere, request)
			request.Mode = stint.ModeTake
			before := store.takes.Load()
			if d := take(t, cache, request); d.Allowed {
				charges = append(charges, d.Charge)
			}
			if store.takes.Load() == before {
				if fromMemory++; look.Allowed {
					t.Fatalf("%v: a cost of %d is denied from memory, and there is room for it: %+v", limits, request.Claims[0].Cost, look.Usages())
				}
			}
		}
		if fromMemory == 0 {
			t.Errorf("%v: nothing was answered from memory", limits)
		}
	}
}

// TestSettledHoldIsAnnounced: if a hold is settled to less, other processes ask again, whatever
// counts the limit.
func TestSettledHoldIsAnnounced(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	e := listen(t, s, func(string) {})
	for _, limit := range []stint.Limit{stint.PerHour(4), stint.TokenBucket(4, 4, time.Hour), stint.PerHour(4).BurstTimes(2)} {
		request := unit(limit.String(), limit)
		request.Claims[0].Cost, request.Hold = limit.Capacity(), time.Minute
		d := take(t, s, request)
		if e.sinceLast(); !d.Allowed {
			t.Fatalf("%v: denied", limit)
		}
		amend(t, s, d.Charge, settle(1))
		if got, want := e.sinceLast(), []string{limit.String()}; !slices.Equal(got, want) {
			t.Errorf("%v: announced %q, want %q", limit, got, want)
		}
	}
}

// TestListenWhileBusy: a server that runs somebody's long script refuses to listen and to stop
// listening. That is an error; in the client, leaving a connection in that state was a panic.
func TestListenWhileBusy(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "10")
	s := open(t, server.URL())
	script := make(chan error, 1)
	go func() {
		_, err := server.Do("EVAL", "while true do redis.call('TIME') end", "0")
		script <- err
	}()
	testkit.Eventually(t, "the server is busy", func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	for range 5 {
		if err := s.Announcements(t.Context(), func(string, bool) {}); err == nil {
			t.Fatal("no error of a busy server")
		}
	}
	server.CLI(t, "SCRIPT", "KILL")
	if err := <-script; err == nil {
		t.Error("the script was not killed")
	}
	listen(t, s, func(string) {})
}

// TestARefundElsewhereEndsAWait: a caller who waits for an hour goes ahead when another process
// gives back what it used, with one more call.
func TestARefundElsewhereEndsAWait(t *testing.T) {
	server := redistest.Start(t)
	elsewhere := testkit.Must(stint.New(open(t, server.URL()), stint.PerHour(1)))(t)
	for _, name := range []string{"store", "stack"} {
		t.Run(name, func(t *testing.T) {
			calls := &counted{Store: open(t, server.URL())}
			var store stint.Store = calls
			if name == "stack" {
				store = stackOver(t, calls, resilience.Config{})
			}
			lim := testkit.Must(stint.New(store, stint.PerHour(1)))(t)
			d, err := elsewhere.Allow(t.Context(), name)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			ended := make(chan error)
			go func() {
				_, err := lim.Wait(t.Context(), name)
				ended <- err
			}()
			testkit.Eventually(t, "it waits, and listens", func() bool {
				heard := server.CLI(t, "PUBSUB", "NUMSUB", "stint:room")
				return calls.takes.Load() == 1 && !strings.HasSuffix(strings.TrimSpace(heard), "0")
			})
			testkit.Must(elsewhere.Refund(t.Context(), d))(t)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := calls.takes.Load(); got != 2 {
				t.Errorf("%d calls, want 2", got)
			}
		})
	}
}
