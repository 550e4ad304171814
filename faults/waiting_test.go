package faults

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

func TestF46(t *testing.T) {
	if !*measure {
		t.Skip("figures only; run make faults")
	}
	fault(t, "F46", "990 callers waiting on one limit", "a decision costs Redis at most 10 times that of an empty queue; under several limits, a burst or a bucket at most 15 times", func(r *report) {
		server := redistest.Start(t)
		redis := testkit.Must(redisstore.Open(t.Context(), redisstore.Config{URL: server.URL()}))(t)
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

// queueCosts compares what decisions cost Redis while nobody waits with what they cost while 990 do.
func queueCosts(r *report, server *redistest.Server, s stint.Store, limits []stint.Limit) {
	alone := stint.Claim{Subject: "alone", Scope: fmt.Sprint(limits), Limits: limits, Cost: 1}
	queue := alone
	queue.Subject = "queue"
	for range limits[0].Capacity() {
		ask(r, s, stint.Request{Claims: []stint.Claim{queue}})
	}
	for range 990 {
		if d := ask(r, s, stint.Request{Claims: []stint.Claim{queue}, Mode: stint.ModeReserve}); !d.Allowed {
			r.Fatalf("%v: no place", limits)
		}
	}
	most := 10.0
	if len(limits) > 1 || contract.HasMeter(&limits[0]) {
		most = 15
	}
	var texts []string
	for _, kind := range []struct {
		name    string
		request stint.Request
	}{
		{"Allow", stint.Request{}},
		{"Peek", stint.Request{Mode: stint.ModePeek}},
		{"Wait", stint.Request{Mode: stint.ModeReserve, MaxWait: time.Microsecond}},
	} {
		empty, full := math.Inf(1), math.Inf(1)
		for range 60 { // by turns, so that other load slows down both
			kind.request.Claims = []stint.Claim{alone}
			for ask(r, s, stint.Request{Claims: kind.request.Claims}).Allowed {
				continue // until requests are denied
			}
			empty = min(empty, scriptTime(r, server, func() { ask(r, s, kind.request) }))
			kind.request.Claims = []stint.Claim{queue}
			full = min(full, scriptTime(r, server, func() { ask(r, s, kind.request) }))
		}
		times := full / empty
		texts = append(texts, fmt.Sprintf("%s %.1f times", kind.name, times))
		if times > most {
			r.Errorf("%v: %s costs %.0f µs, %.1f times the %.0f µs while nobody waits; want at most %.0f", limits, kind.name, full, times, empty, most)
		}
	}
	r.saw("%s: %s", strings.Trim(fmt.Sprint(limits), "[]"), strings.Join(texts, ", "))
}

var scriptStats = regexp.MustCompile(`cmdstat_evalsha:\S*usec_per_call=([\d.]+)`)

// scriptTime returns how many microseconds a call of a script takes, as the mean of a few calls.
// Redis counts the time that passes, in which others may have its processor. The least of many
// short rounds is hardly affected by that.
func scriptTime(r *report, server *redistest.Server, call func()) float64 {
	server.CLI(r, "CONFIG", "RESETSTAT")
	for range 5 {
		call()
	}
	found := scriptStats.FindStringSubmatch(server.CLI(r, "INFO", "commandstats"))
	if found == nil {
		r.Fatal("no statistics of scripts")
	}
	cost := testkit.Must(strconv.ParseFloat(found[1], 64))(r)
	return cost
}
