package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/llm/model"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

type demoCommand struct {
	For      durationFlag `name:"for" placeholder:"TIME" help:"How long to run: 30s, 10m. Default: until it is interrupted."`
	Rate     int          `name:"rate" placeholder:"N" default:"200" help:"About how many requests a second, 1 to 2000. Default: ${default}."`
	Store    string       `name:"store" placeholder:"STORE" default:"memory" help:"memory, redis, or a URL such as redis://localhost:6379/0. Default: ${default}."`
	Listen   string       `name:"listen" placeholder:"ADDR" default:"127.0.0.1:8080" help:"The address of the gateway, or a free port if that one is taken. Default: ${default}."`
	Admin    string       `name:"admin" placeholder:"ADDR" default:"127.0.0.1:6070" help:"The address of the dashboard, or a free port if that one is taken. Default: ${default}."`
	LLM      bool         `name:"llm" help:"Run a streaming language model, with limits on tokens and dollars, instead of the example tiers."`
	Incident string       `name:"incident" placeholder:"KIND" values:"flood,outage" help:"An incident after 20 s: flood (one address sends 100 requests a second) or outage (Redis is down for 90 s). Default: none."`
}

func (*demoCommand) Help() string {
	return `Runs a gateway with the limits of examples/tiers in front of a small application, a dashboard, and callers: users of
every tier, occasional bursts, an abuser who gets banned, and calls of an external API. Everything runs on this machine.

With --llm the application is a language model, with the limits of examples/llm: tokens per key, user and team, and dollars per
organization. --rate is then the number of requested tokens, in thousands a minute.

With --incident it prints what will go wrong, when, and where to look. For an outage it starts its own redis-server,
kills it and starts it again.

    stint demo
    stint demo --rate 1000 --store redis://localhost:6379/0 --for 10m
    stint demo --incident flood
    stint demo --llm`
}

func (c *demoCommand) Validate() error {
	if c.Rate < 1 || c.Rate > 2000 {
		return fmt.Errorf("--rate: %d; want 1 to 2000", c.Rate)
	}
	if kinds := []string{floodIncident, outageIncident}; c.Incident != "" && !slices.Contains(kinds, c.Incident) {
		return fmt.Errorf("--incident: %q; want flood or outage%s", c.Incident, messages.Hint(c.Incident, kinds))
	}
	if c.LLM && c.Incident != "" {
		return errors.New("--incident and --llm cannot be used together")
	}
	if c.Incident == outageIncident && c.Store != memoryStore {
		return errors.New("--incident outage: the demo starts its own Redis server; remove --store")
	}
	return checkStore(c.Store, memoryStore, redisStore)
}

func (c *demoCommand) Run(s *system) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if c.For > 0 {
		timer := time.AfterFunc(time.Duration(c.For), stop)
		defer timer.Stop()
	}
	return c.run(ctx, s, incidentAfter, outageLength)
}

// shadowPolicy is a policy in shadow mode. It shows the effect of a limit without bursts.
const shadowPolicy = `
  - name: steady
    match: {method: GET, path: "/api/pdb/{id}"}
    limits: {free: 10/10s, enterprise: 10/10s, default: unlimited}
    shadow: true
`

// demoPolicies returns the configuration of examples/tiers, with shadowPolicy and demoStore added.
func demoPolicies() string {
	const next = "\nbans:"
	return strings.Replace(string(tiers.YAML), next, shadowPolicy+next, 1) + demoStore
}

// demoStore keeps the demo's counts separate from other counts in the same Redis.
const demoStore = "\nstore: {prefix: stint-demo}\n"

// run runs the demo until the context ends. The parameter after is the delay before an incident,
// and length is the duration of an outage.
func (c *demoCommand) run(ctx context.Context, s *system, after, length time.Duration) (err error) {
	directory, err := os.MkdirTemp("", "stint-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	d := demo{policies: filepath.Join(directory, "stint.yaml")}
	policies, api := demoPolicies(), newDemoAPI()
	if c.LLM {
		policies, api = string(model.YAML)+demoStore, model.New(tokenPause)
	}
	if err := os.WriteFile(d.policies, []byte(policies), 0o600); err != nil {
		return err
	}
	var stop func()
	if d.api, stop, err = serveLocal(api); err != nil {
		return err
	}
	defer stop()

	store := redisURL(c.Store)
	d.incident = incident{kind: c.Incident, from: time.Now().Add(after), to: time.Now().Add(after + length)}
	if c.Incident == outageIncident {
		redis := &d.incident.redis
		redis.directory = directory
		if err := redis.start(); err != nil {
			return err
		}
		defer redis.kill()
		store = "unix://" + redis.socket()
	}
	if d.server, err = c.start(ctx, s, &d, store); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.server.Stop(context.Background())) }()
	d.gateway = "http://" + d.server.Addr(server.HTTP).String()
	if c.LLM {
		if err := s.print(d.llmGuide(s)); err != nil {
			return err
		}
		llmTraffic(ctx, d.gateway, c.Rate)
		return nil
	}
	if err := s.print(d.guide(s, c)); err != nil {
		return err
	}
	return d.traffic(ctx, s, c.Rate)
}

func (c *demoCommand) start(ctx context.Context, s *system, d *demo, store string) (*server.Server, error) {
	logger := s.newLogger(slog.LevelError, "text") // denials are expected, and the dashboard shows them
	srv, err := server.New(server.Config{
		Policies: d.policies, Store: store, HTTP: free(c.Listen), Admin: free(c.Admin),
		// All subjects are made up, so no token is required and subjects are shown in full.
		AdminOpen: true,
		Observe:   observe.Config{ShowSubjects: true, Version: versionOf(s.Build).Version, LogDropped: s.logs.Dropped},
		Gateway:   &config.Gateway{Routes: []config.Route{{Upstream: d.api}}, NoAccessLog: true},
		Logger:    logger,
	})
	if err != nil {
		return nil, err
	}
	return srv, srv.Start(ctx)
}

type demo struct {
	api      string // the URL of the application, which also pretends to be the external API
	server   *server.Server
	gateway  string
	policies string // the path of the policy file
	incident incident
}

func (d *demo) traffic(ctx context.Context, s *system, rate int) error {
	apis, err := d.server.Outbound()
	if err != nil {
		return err
	}
	callers := newDemoTraffic(d.gateway, rate, d.incident.kind == floodIncident)
	var work sync.WaitGroup
	work.Go(func() { callers.run(ctx) })
	work.Go(func() { callPretendAPI(ctx, apis, d.api) })
	work.Go(func() { err = d.incident.happen(ctx, s, callers) })
	work.Wait()
	return err
}

func (d *demo) guide(s *system, c *demoCommand) []byte {
	dashboard := "http://" + d.server.Addr(server.Admin).String()
	at, flags := "", ""
	if dashboard != localAdmin {
		flags = " --server " + dashboard
		if c.Admin == "127.0.0.1:6070" {
			at = "   (port 6070 is taken)"
		}
	}
	taken := ""
	if c.Listen == "127.0.0.1:8080" && d.gateway != "http://127.0.0.1:8080" {
		taken = "   (port 8080 is taken)"
	}
	who, tier := "user:mallory", "free"
	if d.incident.kind == floodIncident {
		who, tier = "ip:"+floodAddress, "anonymous"
	}
	return fmt.Appendf(nil, `Dashboard  %[1]s/%[2]s
Gateway    %[3]s/%[4]s
Limits     %[5]s   change them while it runs

Try it from another terminal:

  curl -i %[3]s/api/pdb/4hhb                                  # anonymous: 20 at once, then 429
  curl -i -H 'X-User-ID: you' %[3]s/api/pdb/4hhb              # 50 structures a minute
  curl -i -H 'X-User-ID: you' %[3]s/api/simulation/1/frames  # free: 60 requests of any kind; with -H 'X-User-Plan: pro' 300
  %[7]s top%[6]s
  %[7]s tail%[6]s
  %[7]s inspect %[9]s --tier %[10]s%[6]s
  %[7]s ban %[9]s --for 10m%[6]s
  %[7]s bans%[6]s
%[8]s
Press Ctrl-C to stop.
`, dashboard, at, d.gateway, taken, d.policies, flags, s.Program, d.incident.guide(dashboard), who, tier)
}

// free returns address. If the address is in use, it returns one with the same host and port 0,
// which selects a free port.
func free(address string) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close() // opened only to check the address
	}
	host, _, wrong := net.SplitHostPort(address)
	if !errors.Is(err, syscall.EADDRINUSE) || wrong != nil {
		return address // the server reports any other problem
	}
	return net.JoinHostPort(host, "0")
}
