package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// demoTraffic makes the demo's requests. Header fields describe each caller as a proxy would, in
// the form that examples/tiers expects.
type demoTraffic struct {
	url  string
	rate int
	calm bool // whether to leave out the callers who abuse the API
	http http.Client
}

// callerKind is a kind of caller. share is its share of the requests, relative to the shares of the
// other kinds. make returns a new request from a caller of this kind.
type callerKind struct {
	share int
	make  func() demoRequest
}

type demoRequest struct {
	method, path string
	header       http.Header
}

func newDemoTraffic(url string, rate int, calm bool) *demoTraffic {
	return &demoTraffic{url: url, rate: rate, calm: calm, http: http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: trafficWorkers},
		Timeout:   5 * time.Second,
	}}
}

// callerKinds returns all kinds of callers, except the user who sends bursts. If abuse is false, it
// leaves out the callers who abuse the API. At the default rate, the other kinds have enough users
// that few of their requests are denied.
func callerKinds(abuse bool) []callerKind {
	user := func(name, plan string) http.Header {
		h := http.Header{"X-User-Id": {name}}
		if plan != "" {
			h.Set("X-User-Plan", plan)
		}
		return h
	}
	get := func(h http.Header) demoRequest {
		return demoRequest{http.MethodGet, fmt.Sprintf("/api/pdb/%d%s", 1+rand.IntN(9),
			pick("hhb", "crn", "abc", "xyz")), h}
	}
	kinds := []callerKind{
		{300, func() demoRequest { return get(user(someone("free", 2000), "")) }},
		{200, func() demoRequest { return get(user(someone("pro", 200), "pro")) }},
		{120, func() demoRequest { return get(user(someone("corp", 50), "enterprise")) }},
		{40, func() demoRequest {
			return demoRequest{http.MethodGet, "/api/simulation/1/frames", user(someone("pro", 200), "pro")}
		}},
		{20, func() demoRequest {
			return demoRequest{http.MethodPost, "/api/simulation/start", user(someone("corp", 50), "enterprise")}
		}},
		{20, func() demoRequest {
			return demoRequest{http.MethodPost, "/api/export/pdf", user(someone("pro", 200), "pro")}
		}},
		{40, func() demoRequest { return get(http.Header{"X-Api-Key-Id": {someone("key", 200)}}) }},
		{30, func() demoRequest { return get(http.Header{"X-Session-Id": {someone("session", 500)}}) }},
		{50, func() demoRequest { return get(http.Header{"X-Service": {pick("indexer", "mailer")}}) }},
		{40, func() demoRequest { return get(from(fmt.Sprintf("198.51.%d.%d", 100+rand.IntN(4), 1+rand.IntN(250)))) }},
		{30, func() demoRequest { return demoRequest{http.MethodGet, "/static/logo.svg", from("198.51.100.7")} }},
	}
	if !abuse {
		return kinds
	}
	return append(kinds, []callerKind{ // the heaviest abuser, a scraper and a password guesser
		{80, func() demoRequest { return get(user("mallory", "")) }},
		{25, func() demoRequest { return get(from("203.0.113.66")) }},
		{5, func() demoRequest { return demoRequest{http.MethodPost, "/login", from("203.0.113.99")} }},
	}...)
}

func from(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

func someone(kind string, of int) string { return fmt.Sprintf("%s-%d", kind, 1+rand.IntN(of)) }

func pick(of ...string) string { return of[rand.IntN(len(of))] }

const (
	// trafficWorkers is the maximum number of steady requests in progress at once. If the
	// application is slow, it gets fewer requests.
	trafficWorkers = 16
	trafficTick    = 10 * time.Millisecond

	burstEvery = 20 * time.Second
	burstFirst = 3 * time.Second
	// burstSize is the number of requests in a burst, and burstLength is its duration.
	burstSize   = 100
	burstLength = 2 * time.Second
)

func (c *demoTraffic) run(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	visits := make(chan demoRequest)
	var work sync.WaitGroup
	for range trafficWorkers {
		work.Go(func() {
			for v := range visits {
				_ = call(ctx, &c.http, v.method, c.url+v.path, v.header) // the dashboard shows the result
			}
		})
	}
	work.Go(func() { c.bursts(ctx) })
	c.steady(ctx, visits)
	close(visits)
	work.Wait()
}

func (c *demoTraffic) steady(ctx context.Context, visits chan<- demoRequest) {
	all, total := callerKinds(!c.calm), 0
	for _, h := range all {
		total += h.share
	}
	tick := time.NewTicker(trafficTick)
	defer tick.Stop()
	for began, made := time.Now(), 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due := int(time.Since(began).Seconds() * float64(c.rate))
		if due-made > c.rate { // more than a second behind: do not catch up
			made = due
		}
		for ; made < due; made++ {
			n := rand.IntN(total)
			for _, h := range all {
				if n -= h.share; n < 0 {
					select {
					case visits <- h.make():
					case <-ctx.Done():
						return
					}
					break
				}
			}
		}
	}
}

// bursts makes one user regularly send a burst that exceeds the user's limits.
func (c *demoTraffic) bursts(ctx context.Context) {
	for wait := burstFirst; ; wait = burstEvery {
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		for range burstSize {
			_ = call(ctx, &c.http, http.MethodGet, c.url+"/api/pdb/4hhb",
				http.Header{"X-User-Id": {"bob"}}) // the dashboard shows the result
			pause(ctx, burstLength/burstSize)
		}
	}
}
