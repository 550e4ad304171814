package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// crowd are the callers of the demo. What a proxy would say of each is in its header fields, as examples/tiers has it.
type crowd struct {
	url  string
	rate int
	http http.Client
}

// habit is a kind of callers: how many of a thousand requests are theirs, and what those are.
type habit struct {
	share int
	make  func() visit
}

// visit is one request.
type visit struct {
	method, path string
	header       http.Header
}

func newCrowd(url string, rate int) *crowd {
	return &crowd{url: url, rate: rate, http: http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: crowdWorkers},
		Timeout:   5 * time.Second,
	}}
}

// habits are those of everybody but the one who comes in bursts. Quiet users stay within their limits, for hours: there are
// enough of them.
func habits() []habit {
	user := func(name, plan string) http.Header {
		h := http.Header{"X-User-Id": {name}}
		if plan != "" {
			h.Set("X-User-Plan", plan)
		}
		return h
	}
	get := func(h http.Header) visit {
		return visit{http.MethodGet, fmt.Sprintf("/structures/%d%s", 1+rand.IntN(9), pick("hhb", "crn", "abc", "xyz")), h}
	}
	return []habit{
		{300, func() visit { return get(user(someone("free", 2000), "")) }},
		{200, func() visit { return get(user(someone("pro", 200), "pro")) }},
		{120, func() visit { return get(user(someone("corp", 50), "enterprise")) }},
		{40, func() visit {
			return visit{http.MethodGet, "/simulations/1/frames", user(someone("pro", 200), "pro")}
		}},
		{20, func() visit { return visit{http.MethodPost, "/simulations", user(someone("corp", 50), "enterprise")} }},
		{20, func() visit { return visit{http.MethodPost, "/structures/4hhb/pdf", user(someone("pro", 200), "pro")} }},
		{40, func() visit { return get(http.Header{"X-Api-Key-Id": {someone("key", 200)}}) }},
		{30, func() visit { return get(http.Header{"X-Session-Id": {someone("session", 500)}}) }},
		{50, func() visit { return get(http.Header{"X-Service": {pick("indexer", "mailer")}}) }},
		{40, func() visit { return get(from(fmt.Sprintf("198.51.%d.%d", 100+rand.IntN(4), 1+rand.IntN(250)))) }},
		{30, func() visit { return visit{http.MethodGet, "/static/logo.svg", from("198.51.100.7")} }},
		// The abuser, a scraper, and somebody who guesses passwords.
		{80, func() visit { return get(user("mallory", "")) }},
		{25, func() visit { return get(from("203.0.113.66")) }},
		{5, func() visit { return visit{http.MethodPost, "/login", from("203.0.113.99")} }},
	}
}

// from is what a proxy says of a client without a name.
func from(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

func someone(kind string, of int) string { return fmt.Sprintf("%s-%d", kind, 1+rand.IntN(of)) }

func pick(of ...string) string { return of[rand.IntN(len(of))] }

const (
	// crowdWorkers is how many requests are under way at most: an application that is slow has fewer.
	crowdWorkers = 16
	// crowdTick is how often requests are handed out.
	crowdTick = 10 * time.Millisecond

	burstEvery = 20 * time.Second
	burstFirst = 3 * time.Second
	// A burst is so many requests within so much time.
	burstSize   = 100
	burstLength = 2 * time.Second
)

// run calls until the context ends.
func (c *crowd) run(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	visits := make(chan visit)
	var work sync.WaitGroup
	for range crowdWorkers {
		work.Go(func() {
			for v := range visits {
				_ = call(ctx, &c.http, v.method, c.url+v.path, v.header) // whatever comes of it is on the dashboard
			}
		})
	}
	work.Go(func() { c.bursts(ctx) })
	c.stroll(ctx, visits)
	close(visits)
	work.Wait()
}

// stroll hands out requests at the rate.
func (c *crowd) stroll(ctx context.Context, visits chan<- visit) {
	all, total := habits(), 0
	for _, h := range all {
		total += h.share
	}
	tick := time.NewTicker(crowdTick)
	defer tick.Stop()
	for began, made := time.Now(), 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due := int(time.Since(began).Seconds() * float64(c.rate))
		if due-made > c.rate { // it could not keep up, and does not try to
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

// bursts has one user do a lot at once, now and then: more than the tier has room for.
func (c *crowd) bursts(ctx context.Context) {
	for wait := burstFirst; ; wait = burstEvery {
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		for range burstSize {
			_ = call(ctx, &c.http, http.MethodGet, c.url+"/structures/4hhb", http.Header{"X-User-Id": {"bob"}}) // as above
			pause(ctx, burstLength/burstSize)
		}
	}
}
