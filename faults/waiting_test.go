package faults

import (
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
	if !*measure {
		t.Skip("figures only; run make faults")
	}
	fault(t, "F46", "990 callers waiting on one limit", "a decision costs Redis at most 10 times that of an empty queue", func(r *report) {
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
			{stint.PerSecond(4).BurstTimes(3)},
			{stint.TokenBucket(10, 4, time.Second)},
		} {
			queueCosts(r, server, redis, limits)
		}
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
		if times > most {
			r.Errorf("%v: %s costs %.0f µs, %.1f times the %.0f µs while nobody waits; want at most %.0f", limits, name, full[i], times, empty[i], most)
		}
	}
	r.saw("%s: %s", strings.Trim(fmt.Sprint(limits), "[]"), strings.Join(texts, ", "))
}

var scriptStats = regexp.MustCompile(`cmdstat_evalsha:\S*usec_per_call=([\d.]+)`)

// scriptTime is what a call of a script costs Redis, in microseconds: the least of some rounds.
// Redis counts the time that passes, in which others may have its processor.
func scriptTime(r *report, server *redistest.Server, call func()) float64 {
	var rounds []float64
	for range 12 {
		server.CLI(r, "CONFIG", "RESETSTAT")
		for range 100 {
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
