package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// httpCallers is the number of concurrent callers, each with its own connection.
const httpCallers = 64

// generous is a configuration with a limit that these measurements never reach. stint waits for
// Redis, as envoyproxy/ratelimit does, and returns an error instead of deciding without Redis.
const generous = `client_ip: {trusted_proxies: loopback}
failure: {mode: error, budget: 1s}
tiers:
  - {name: all, identity: ip, limits: 1000000000/1h}
`

// page is the response of the upstream.
var page = `{"data":"` + strings.Repeat("0123456789", 50) + `"}`

// runGateway compares the gateway with proxies that have no limits.
func (p *programs) runGateway(ctx context.Context, s contest.Settings, r *contest.Report) {
	rack := process.NewRack()
	defer rack.Stop()
	upstream := startBare(ctx, rack, page)
	sites := []site{{"upstream itself", upstream}}
	for _, proxy := range proxies {
		sites = append(sites, site{proxy.name, proxy.start(ctx, p, rack, upstream)})
	}
	measured := measureSites(ctx, s, sites, http.MethodGet, "/", "")
	r.Heading("The gateway, requests a second", fmt.Sprintf("%d connections, a body of %d bytes, no access logs; %s; Caddy %s. "+
		"The gateway limits every request; nginx and Caddy only pass them on.", httpCallers, len(page), version("nginx", "-v"), version("caddy", "version")))
	r.Table([]string{"", "requests/s", "p50 ms", "p99 ms", "× nginx", "× Caddy"}, siteRows(sites, measured, 2))
}

// siteRows returns a row for each site: its rate, its latencies, and its rate relative to the rates
// of the last n sites.
func siteRows(sites []site, measured []sample, n int) [][]string {
	rows := make([][]string, len(sites))
	for i, m := range measured {
		rows[i] = []string{sites[i].name, count(m.rate), milliseconds(m.p50), milliseconds(m.p99)}
		for _, other := range measured[len(measured)-n:] {
			rows[i] = append(rows[i], fmt.Sprintf("%.2f", m.rate/other.rate))
		}
	}
	return rows
}

// runAPI compares the JSON API with a handler that makes no decisions.
func (p *programs) runAPI(ctx context.Context, s contest.Settings, r *contest.Report) {
	rack := process.NewRack()
	defer rack.Stop()
	sites := []site{
		{"stint, memory", p.start(ctx, rack, "serve", "--http", generous, "memory").Address},
		{"stint, Redis", p.start(ctx, rack, "serve", "--http", generous, "redis://"+rack.Redis(ctx).Address).Address},
	}
	const question = `{"method":"GET","path":"/","peer":"192.0.2.1"}`
	_, answer, err := send(ctx, http.DefaultClient, http.MethodPost, "http://"+sites[0].address+"/v1/take", question)
	contest.OK(err)
	sites = append(sites, site{"bare handler", startBare(ctx, rack, string(answer))})
	measured := measureSites(ctx, s, sites, http.MethodPost, "/v1/take", question)
	r.Heading("The JSON API, decisions a second", fmt.Sprintf("POST /v1/take by attributes, %d connections. The bare handler reads the body and responds with "+
		"the same body as stint.", httpCallers))
	r.Table([]string{"", "decisions/s", "p50 ms", "p99 ms", "of bare"}, siteRows(sites, measured, 1))
}

type site struct{ name, address string }

// measureSites sends the same request to all sites, all of which must allow it.
func measureSites(ctx context.Context, s contest.Settings, sites []site, method, path, body string) []sample {
	transport := &http.Transport{MaxIdleConnsPerHost: httpCallers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var contenders []contender
	for _, at := range sites {
		contenders = append(contenders, contender{at.name, func(ctx context.Context, _ int) (bool, error) {
			status, _, err := send(ctx, client, method, "http://"+at.address+path, body)
			return status == http.StatusOK, err
		}})
	}
	return load{callers: httpCallers, length: length(s), rounds: s.Rounds, allowed: 1}.measure(ctx, contenders)
}

func send(ctx context.Context, client *http.Client, method, url, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// startBare starts a server that sends body in response to every request. It returns the server's
// address.
func startBare(ctx context.Context, rack *process.Rack, body string) string {
	path := rack.Write("body", body)
	address := process.FreeAddress()
	self := contest.Must(os.Executable())
	rack.Start(ctx, address, nil, self, bareCommand, "-http", address, "-allowed", path)
	return address
}
