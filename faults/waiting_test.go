package faults

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

func TestF46(t *testing.T) {
	fault(t, "F46", "990 callers waiting on one limit", "a decision costs Redis at most 10 times that of an empty queue; canceled places leave no holes", func(r *report) {
		server := redistest.Start(t)
		redis, err := redisstore.Open(t.Context(), redisstore.Config{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer redis.Close()
		for _, limits := range [][]stint.Limit{
			{stint.PerSecond(4)},
			{stint.PerSecond(4), stint.PerMinute(200)},
			{stint.PerSecond(200), stint.PerMinute(5000)},
			{stint.PerSecond(4).WithBurst(3)},
			{stint.TokenBucket(10, 4, time.Second)},
		} {
			queueCosts(r, server, redis, limits)
		}
		givenUp(r, redis)
		wantTTLs(r, server)
	})
}

// queueCosts measures what decisions cost Redis while nobody waits, and while 990 do.
func queueCosts(r *report, server *redistest.Server, s stint.Store, limits []stint.Limit) {
	claim := stint.Claim{Subject: "queue", Scope: fmt.Sprint(limits), Limits: limits, Cost: 1}
	kinds := []stint.Request{
		{Claims: []stint.Claim{claim}},
		{Claims: []stint.Claim{claim}, Mode: stint.ModePeek},
		{Claims: []stint.Claim{claim}, Mode: stint.ModeReserve, MaxWait: time.Microsecond},
	}
	for range limits[0].Capacity() { // what is asked for next is denied
		ask(r, s, kinds[0])
	}
	measured := func() (cost []float64) {
		for _, q := range kinds {
			cost = append(cost, scriptTime(r, server, func() { ask(r, s, q) }))
		}
		return cost
	}
	empty := measured()
	for range 990 {
		if d := ask(r, s, stint.Request{Claims: []stint.Claim{claim}, Mode: stint.ModeReserve}); !d.Allowed {
			r.Fatalf("%v: no place", limits)
		}
	}
	full := measured()
	var texts []string
	for i, name := range []string{"Allow", "Peek", "Wait"} {
		times := full[i] / empty[i]
		texts = append(texts, fmt.Sprintf("%s %.1f times", name, times))
		// Ten times is promised of one log; what else is measured has a bound of its own, so that
		// it does not grow unseen.
		most := 10.0
		if len(limits) > 1 || contract.HasMeter(&limits[0]) {
			most = 15
		}
		if *measure && times > most {
			r.Errorf("%v: %s costs %.0f µs, %.1f times the %.0f µs while nobody waits; want at most %.0f", limits, name, full[i], times, empty[i], most)
		}
	}
	r.saw("%s: %s", strings.Trim(fmt.Sprint(limits), "[]"), strings.Join(texts, ", "))
}

func ask(r *report, s stint.Store, q stint.Request) stint.Decision {
	r.Helper()
	d, err := s.Take(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

var scriptStats = regexp.MustCompile(`cmdstat_evalsha:\S*usec_per_call=([\d.]+)`)

// scriptTime is what a call of a script costs Redis, in microseconds: the least of some rounds.
// Redis counts the time that passes, in which others may have its processor.
func scriptTime(r *report, server *redistest.Server, call func()) float64 {
	var rounds []float64
	for range pick(12, 3) {
		server.CLI(r, "CONFIG", "RESETSTAT")
		for range pick(100, 10) {
			call()
		}
		found := scriptStats.FindStringSubmatch(server.CLI(r, "INFO", "commandstats"))
		if found == nil {
			r.Fatal("no statistics of scripts")
		}
		cost, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			r.Fatal(err)
		}
		rounds = append(rounds, cost)
	}
	return slices.Min(rounds)
}

// givenUp has most of a queue give up, in the middle. The last one and a newcomer do not wait
// behind nobody.
func givenUp(r *report, s stint.Store) {
	const waiters, stay = 200, 10
	limiter, err := stint.New(s, stint.PerSecond(10))
	if err != nil {
		r.Fatal(err)
	}
	var charges []stint.Charge
	for range stay + waiters - 1 { // ten go ahead at once
		charges = append(charges, ask(
			r, s, stint.Request{Claims: []stint.Claim{{Subject: "given up", Limits: limiter.Limits(), Cost: 1}},
				Mode: stint.ModeReserve}).Charge)
	}
	q := stint.Request{Claims: []stint.Claim{{Subject: "given up", Limits: limiter.Limits(), Cost: 1}},
		Mode: stint.ModeReserve, MaxWait: time.Microsecond}
	booked := ask(r, s, q).RetryAfter
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	wait := func() { go func() { _, err := limiter.Wait(ctx, "given up"); ended <- err }() }
	wait() // the last
	for {  // until it has its place
		if later := ask(r, s, q).RetryAfter; later > booked {
			break
		}
	}
	gaveUp := time.Now()
	for _, c := range charges[2*stay:] {
		if ok, err := s.Amend(r.Context(), c, stint.Amendment{Kind: stint.AmendSettle}); err != nil || !ok.Changed {
			r.Fatal(ok, err)
		}
	}
	wait() // a newcomer
	for range 2 {
		if err := <-ended; err != nil {
			r.Error(err)
		}
	}
	took := time.Since(gaveUp)
	if took > booked/2 {
		r.Errorf("the last, who was to wait for %v, went ahead only after %v", booked, took)
	}
	r.within(fmt.Sprintf("%d of %d gave up: the last, with a place in %s, and a newcomer went ahead after", waiters-stay-1, waiters, short(booked)), took, 4*time.Second)
}
