package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server"
)

// daemonFlags are what serve and gateway have in common.
type daemonFlags struct {
	Config     string        `name:"config" placeholder:"FILE" help:"Policies: a file, or a directory whose *.yaml and *.yml files are one configuration. Default: a built-in limit on every client."`
	Store      string        `name:"store" placeholder:"STORE" help:"memory, redis, or a URL such as redis://localhost:6379/0. Default: $$REDIS_URL, else what the policies say, else memory. redis is $$REDIS_URL, else localhost."`
	StoreMem   sizeFlag      `name:"store-memory" placeholder:"SIZE" help:"How much memory the store in memory may use, such as 256MiB; above it, those with the most left of their limits are forgotten. Default: what the policies say, else 1GiB."`
	Admin      string        `name:"admin" placeholder:"ADDR" default:"127.0.0.1:6070" help:"Where operators find the dashboard, metrics, probes, the state of the configuration and profiles; empty is nowhere. Default: ${default}."`
	AdminToken string        `name:"admin-token-file" placeholder:"FILE" help:"Bearer tokens for --admin, one to a line: alone, after the name of its holder as in alice: TOKEN, or with the role read as in prometheus (read): TOKEN. Default: one that is made once, in the file admin-token of --state-dir."`
	NoToken    bool          `name:"no-admin-token" help:"Have no token for --admin: callers on this host may look, as may everybody behind a proxy on it that does not say that it is one, and nobody may change anything."`
	StateDir   string        `name:"state-dir" placeholder:"DIR" help:"Where to keep the token that is made. Default: $$STATE_DIRECTORY, else $$XDG_STATE_HOME/stint, else ~/.local/state/stint."`
	ShowAll    bool          `name:"show-subjects" help:"Show operators subjects in full. By default addresses are shown by their network, and others by how they begin."`
	Alert      []string      `name:"alert" placeholder:"NAME=VALUE" sep:"none" help:"Another threshold for an alert, such as BlockedShare=0.2, or Spike=off. May be repeated."`
	Webhook    string        `name:"alert-webhook" placeholder:"URL" help:"Where to post alerts when they begin to fire, and when they end. Others on this machine can see it in a command line."`
	WebhookIn  string        `name:"alert-webhook-file" placeholder:"FILE" help:"A file with that URL, which is read at the start."`
	TLSCert    string        `name:"tls-cert" placeholder:"FILE" help:"The certificate of all listeners, with its chain, in PEM form."`
	TLSKey     string        `name:"tls-key" placeholder:"FILE" help:"Its key."`
	TLSClient  string        `name:"tls-client-ca" placeholder:"FILE" help:"Authorities, of one of which clients need a certificate."`
	MaxClients int           `name:"max-clients" placeholder:"N" help:"How many connections of clients each listener may have. Those beyond are closed at once. Default: ${max_clients}."`
	Drain      time.Duration `name:"drain" placeholder:"TIME" default:"10s" help:"How long to go on serving after SIGTERM, while load balancers find out. Default: ${default}."`
	LogLevel   levelFlag     `name:"log-level" placeholder:"LEVEL" values:"debug,info,warn,error" default:"info" help:"debug, info, warn or error. Default: ${default}."`
	LogFormat  string        `name:"log-format" placeholder:"FORMAT" enum:"text,json" default:"text" help:"text or json. Default: ${default}."`
}

// levelFlag is how important a message must be to be logged.
type levelFlag slog.Level

// UnmarshalText reads a level.
func (l *levelFlag) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is no level; want debug, info, warn or error", text)
	}
	return nil
}

// sizeFlag is a number of bytes.
type sizeFlag int64

// UnmarshalText reads a size as configurations have it: 64MiB.
func (f *sizeFlag) UnmarshalText(text []byte) error {
	bytes, err := words.Size(string(text))
	if err != nil {
		return fmt.Errorf("%w; got %q", err, text)
	}
	*f = sizeFlag(bytes)
	return nil
}

// The environment variables that daemons look at, beside those of token.go.
const (
	redisEnv  = "REDIS_URL"
	notifyEnv = "NOTIFY_SOCKET"
)

// builtInLimits are those of daemons without policies.
const builtInLimits = "every client may do 600 requests a minute, 1200 at once, and 10,000 an hour"

// redisStore is the store that the environment names, and localRedis that one if it does not.
const (
	redisStore = "redis"
	localRedis = "redis://localhost:6379/0"
)

// envRedis returns the URL that the environment has, or "". If that was made from a file it ends in a line break.
func envRedis() string { return strings.TrimSpace(os.Getenv(redisEnv)) }

// redisURL returns the URL of a store that may be called by its short name.
func redisURL(store string) string {
	if store == redisStore {
		return cmp.Or(envRedis(), localRedis)
	}
	return store
}

// Validate is called when the flags have been read.
func (f *daemonFlags) Validate() error {
	if _, err := f.observe(); err != nil {
		return err
	}
	if f.NoToken && f.AdminToken != "" {
		return errors.New("--no-admin-token and --admin-token-file; want one of them")
	}
	if f.StoreMem != 0 && f.StoreMem < policy.MinStoreMemory {
		return fmt.Errorf("--store-memory: %d bytes hold next to nothing; want 1MiB or more", f.StoreMem)
	}
	switch {
	case f.Store == "", f.Store == server.MemoryStore, f.Store == redisStore, strings.Contains(f.Store, "://"):
		return nil
	}
	// It is not shown: it may hold a password.
	return fmt.Errorf("--store: want memory, redis, or a URL such as %s%s", localRedis, nearest.Hint(f.Store, []string{server.MemoryStore, redisStore}))
}

// observe returns what is shown, and when to raise an alarm.
func (f *daemonFlags) observe() (observe.Config, error) {
	c := observe.Config{ShowSubjects: f.ShowAll, Alerts: observe.AlertConfig{Webhook: f.Webhook, Thresholds: map[string]float64{}}}
	flag := "--alert-webhook"
	if f.WebhookIn != "" {
		if f.Webhook != "" {
			return c, errors.New("--alert-webhook and --alert-webhook-file; want one of them")
		}
		flag = "--alert-webhook-file"
		text, err := readSecret(f.WebhookIn)
		if err != nil {
			return c, fmt.Errorf("%s: %w", flag, err)
		}
		c.Alerts.Webhook = text
	}
	for _, text := range f.Alert {
		name, threshold, err := observe.ParseThreshold(text)
		if err != nil {
			return c, fmt.Errorf("--alert: %w", err)
		}
		c.Alerts.Thresholds[name] = threshold
	}
	if err := c.Alerts.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", flag, err)
	}
	return c, nil
}

// configuration returns what the flags say, and the environment where they say nothing. It makes the token of the admin
// listener, unless there is one, or is to be none.
func (f *daemonFlags) configuration(s *system) (server.Config, error) {
	store := redisURL(f.Store)
	if store == "" {
		store = envRedis()
	}
	options := &slog.HandlerOptions{Level: slog.Level(f.LogLevel)}
	var log slog.Handler = slog.NewTextHandler(s.errors(), options)
	if f.LogFormat == "json" {
		log = slog.NewJSONHandler(s.errors(), options)
	}
	logger := slog.New(log)
	shown, err := f.observe()
	if err != nil {
		return server.Config{}, err
	}
	shown.Version = versionOf(s.Build).Version
	if f.WebhookIn != "" && callers.ReadableByAll(f.WebhookIn) {
		logger.Warn("stint: everybody on this machine can read the file of --alert-webhook-file; make it readable by its owner only: chmod 600", "file", f.WebhookIn)
	}
	if hasPassword(f.Store) {
		logger.Warn("stint: others on this machine can see the password of --store in the list of processes; give the URL in " + redisEnv)
	}
	tokens := f.AdminToken
	if tokens == "" && f.Admin != "" && !f.NoToken {
		if tokens, err = madeToken(f.StateDir, logger); err != nil {
			return server.Config{}, err
		}
	}
	return server.Config{
		Policies:       f.Config,
		Observe:        shown,
		Store:          store,
		StoreMemory:    int64(f.StoreMem),
		Admin:          f.Admin,
		AdminTokens:    tokens,
		TLS:            server.TLS{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClient},
		Drain:          f.Drain,
		Logger:         logger,
		MaxConnections: f.MaxClients,
	}, nil
}

var errInterrupted = errors.New("ended at once by a second signal; requests may have been cut off")

// runDaemon serves until a signal says to stop, or something fails.
func runDaemon(c server.Config) error {
	// Signals are taken before anything is set up: one that comes early is obeyed as soon as there is something to stop.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	srv, err := server.New(c)
	if err != nil {
		return err
	}
	if err := srv.Start(context.Background()); err != nil {
		return listenProblem(err)
	}
	tellSystemd(c.Logger, "READY=1")
	failed := make(chan error, 1)
	go func() { failed <- srv.Wait() }() // ends when the server has
	for {
		select {
		case err := <-failed:
			return errors.Join(err, stopDaemon(c.Logger, srv, signals))
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				c.Logger.Info("stint: stopping; a second signal ends it at once", "signal", sig.String())
				return stopDaemon(c.Logger, srv, signals)
			}
			tellSystemd(c.Logger, "RELOADING=1")
			_ = srv.Reload() // logged already, and what was good stays
			tellSystemd(c.Logger, "READY=1")
		}
	}
}

// listenProblem returns an error of starting with what to do about it, if it is that of an address.
func listenProblem(err error) error {
	var listening *net.OpError
	switch {
	case !errors.As(err, &listening) || listening.Op != "listen":
		return err
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; end what listens there, or choose another address", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; want an address of this host, or none for all of them, such as :8080", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports below 1024 need a permission: choose another, or give CAP_NET_BIND_SERVICE", err)
	}
	return err
}

// stopDaemon ends a server in good order, or at once if another signal comes.
func stopDaemon(logger *slog.Logger, srv *server.Server, signals <-chan os.Signal) error {
	tellSystemd(logger, "STOPPING=1")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				if sig != syscall.SIGHUP {
					cancel(errInterrupted)
				}
			}
		}
	}()
	err := srv.Stop(ctx)
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

// tellSystemd tells a service manager how the daemon is, if there is one that wants to know (see sd_notify(3)).
func tellSystemd(logger *slog.Logger, state string) {
	socket := os.Getenv(notifyEnv)
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		logger.Warn("stint: the service manager could not be told", "state", state, "error", err)
	}
}
