package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

type daemonFlags struct {
	Config string `name:"config" placeholder:"FILE" help:"Policies: a file, or a directory whose *.yaml and *.yml files are one configuration. Default: a built-in limit on every client."`
	Store  string `name:"store" placeholder:"STORE" help:"memory, redis, or a URL such as redis://localhost:6379/0. Default: $$REDIS_URL, else as set in the policies, else memory. redis means $$REDIS_URL, else localhost."`
	storeTLSFlags
	StoreMem   sizeFlag      `name:"store-memory" placeholder:"SIZE" help:"The maximum size of a memory store, such as 256MiB. Above it, the subjects with the most left of their limits are evicted first. Default: as set in the policies, else 1GiB."`
	Failures   failuresFlag  `name:"breaker-failures" placeholder:"N" help:"The number of consecutive failed calls to Redis after which the breaker opens and stops calls for a while. Default: as set in the policies, else ${breaker_failures}."`
	Probe      breakerTime   `name:"breaker-probe" placeholder:"TIME" help:"How often an open breaker pings Redis, to try again once it answers. Default: as set in the policies, else ${breaker_probe}."`
	Retry      breakerTime   `name:"breaker-retry" placeholder:"TIME" help:"After how long an open breaker tries again if Redis does not permit pings. Default: as set in the policies, else ${breaker_retry}."`
	Admin      string        `name:"admin" placeholder:"ADDR" default:"127.0.0.1:6070" help:"The address of the dashboard, metrics, probes, the state of the configuration and profiles. Empty turns it off. Default: ${default}."`
	Metrics    string        `name:"metrics" placeholder:"ADDR" help:"The address of metrics for Prometheus and probes, such as :6071, without a token: let only Prometheus connect. --admin serves them too, and requires a token. Default: none."`
	AdminToken string        `name:"admin-token-file" placeholder:"FILE" help:"Bearer tokens for --admin, one per line: alone, after the name of its holder as in alice: TOKEN, or with the role read as in prometheus (read): TOKEN. Default: a token that is generated once, in the file admin-token of --state-dir."`
	NoToken    bool          `name:"no-admin-token" help:"Require no token for --admin: callers on this host have read access, including all clients of a proxy on this host that does not identify itself, and no one may change anything."`
	StateDir   string        `name:"state-dir" placeholder:"DIR" help:"Where to keep the generated token. Default: $$STATE_DIRECTORY, else $$XDG_STATE_HOME/stint, else ~/.local/state/stint."`
	ShowAll    bool          `name:"show-subjects" help:"Show subjects in full to everyone with access. By default only operators see them in full; for others, addresses are shortened to their network, and other subjects to their beginning."`
	Denials    time.Duration `name:"keep-denials" placeholder:"TIME" default:"24h" help:"How long to remember why subjects were denied, for stint why. 0 remembers nothing. Default: ${default}."`
	Alert      []string      `name:"alert" placeholder:"NAME=VALUE" sep:"none" help:"A different threshold for an alert, such as BlockedShare=0.2, or Spike=off. Can be repeated."`
	Webhook    string        `name:"alert-webhook" placeholder:"URL" help:"Where to post alerts when they start and stop firing. Other users of this machine can see the URL on the command line."`
	WebhookIn  string        `name:"alert-webhook-file" placeholder:"FILE" help:"A file with the URL of --alert-webhook, read at startup."`
	TLSCert    string        `name:"tls-cert" placeholder:"FILE" help:"The certificate of all listeners, with its chain, in PEM form."`
	TLSKey     string        `name:"tls-key" placeholder:"FILE" help:"The private key of --tls-cert."`
	TLSClient  string        `name:"tls-client-ca" placeholder:"FILE" help:"Certificate authorities. Clients need a certificate from one of them."`
	MaxClients int           `name:"max-clients" placeholder:"N" help:"The maximum number of client connections of each listener. Connections above it are closed immediately. Default: ${max_clients}."`
	Drain      time.Duration `name:"drain" placeholder:"TIME" default:"0s" help:"How long to keep serving after SIGTERM or SIGINT, until load balancers notice that it is not ready. Default: ${default}."`
	LogLevel   levelFlag     `name:"log-level" placeholder:"LEVEL" values:"debug,info,warn,error" default:"info" help:"debug, info, warn or error. Default: ${default}."`
	LogFormat  string        `name:"log-format" placeholder:"FORMAT" enum:"text,json" default:"text" help:"text or json. Default: ${default}."`

	envStore string // the URL of Redis in the environment of envoyproxy/ratelimit
}

type levelFlag slog.Level

func (l *levelFlag) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("unknown level %q; want debug, info, warn or error", text)
	}
	return nil
}

type sizeFlag int64

// UnmarshalText parses a size in the form that configurations use, such as 64MiB.
func (f *sizeFlag) UnmarshalText(text []byte) error {
	bytes, err := syntax.Size(string(text))
	if err != nil {
		return fmt.Errorf("%w; got %q", err, text)
	}
	*f = sizeFlag(bytes)
	return nil
}

type failuresFlag int

// UnmarshalText parses a whole number of at least 1.
func (f *failuresFlag) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q; want a number of failures, 1 or more", text)
	}
	*f = failuresFlag(n)
	return nil
}

type breakerTime time.Duration

// UnmarshalText parses a duration that [parseDuration] accepts, of at least
// [contract.MinBreakerTime].
func (b *breakerTime) UnmarshalText(text []byte) error {
	d, err := parseDuration(string(text))
	if err == nil && d < contract.MinBreakerTime {
		return fmt.Errorf("%q is too short; want %v or more", text, contract.MinBreakerTime)
	}
	*b = breakerTime(d)
	return err
}

const notifyEnv = "NOTIFY_SOCKET"

// builtInLimits describes the limits of daemons without policies.
const builtInLimits = "every client may make 600 requests a minute, 1,200 at once, and 10,000 an hour"

func (f *daemonFlags) Validate() error {
	if _, err := f.observe(); err != nil {
		return err
	}
	if f.NoToken && f.AdminToken != "" {
		return errors.New("--no-admin-token and --admin-token-file cannot be used together")
	}
	if f.StoreMem != 0 && f.StoreMem < syntax.MinMemory {
		return fmt.Errorf("--store-memory: %d bytes are too few; want 1MiB or more", f.StoreMem)
	}
	return checkStore(f.Store, memoryStore, redisStore)
}

func (f *daemonFlags) observe() (observe.Config, error) {
	c := observe.Config{ShowSubjects: f.ShowAll, KeepDenials: f.Denials,
		Alerts: observe.AlertConfig{Webhook: f.Webhook, Thresholds: map[string]float64{}}}
	if f.Denials == 0 {
		c.KeepDenials = -1
	}
	flag := "--alert-webhook"
	if f.WebhookIn != "" {
		if f.Webhook != "" {
			return c, errors.New("--alert-webhook and --alert-webhook-file cannot be used together")
		}
		flag = "--alert-webhook-file"
		text, err := callers.ReadSecret(f.WebhookIn)
		if err != nil {
			return c, fmt.Errorf("%s: %w", flag, err)
		}
		c.Alerts.Webhook = string(text)
	}
	for _, text := range f.Alert {
		if err := setThreshold(c.Alerts.Thresholds, text); err != nil {
			return c, fmt.Errorf("--alert: %w", err)
		}
	}
	if err := c.Alerts.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", flag, contract.Mistakes(err))
	}
	return c, nil
}

// setThreshold adds the threshold in text, such as "BlockedShare=0.2" or "Spike=off", to
// thresholds.
func setThreshold(thresholds map[string]float64, text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf(`%q; want a name and a threshold, such as "BlockedShare=0.2" or "Spike=off"`, text)
	}
	threshold := math.Inf(1)
	if value != "off" {
		var err error
		if threshold, err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf(`%s: the threshold is %q; want a number, or "off"`, name, value)
		}
	}
	thresholds[name] = threshold
	alone := observe.AlertConfig{Thresholds: map[string]float64{name: threshold}}
	return contract.Mistakes(alone.Validate())
}

// configuration returns the server's configuration. If the admin listener is on and requires a
// token, but no flag names a token file, it uses the token file in the state directory, and creates
// that file if it is missing.
func (f *daemonFlags) configuration(s *system) (server.Config, error) {
	store, err := f.addTo(cmp.Or(f.envStore, redisURL(f.Store), envURL()))
	if err != nil {
		return server.Config{}, usageMistake(err)
	}
	shown, err := f.observe()
	if err != nil {
		return server.Config{}, err
	}
	logger := s.newLogger(slog.Level(f.LogLevel), f.LogFormat)
	shown.Version, shown.LogDropped = versionOf(s.Build).Version, s.logs.Dropped
	if f.WebhookIn != "" {
		callers.WarnReadable(logger, "--alert-webhook-file", f.WebhookIn)
	}
	if hasPassword(f.Store) {
		logger.Warn("stint: other users of this machine can see the password of --store in the list of processes; pass the URL in " + redisEnv)
	}
	tokens := f.AdminToken
	if tokens == "" && f.Admin != "" && !f.NoToken {
		if tokens, err = ensureToken(f.StateDir, logger); err != nil {
			return server.Config{}, err
		}
	}
	return server.Config{
		Policies:        f.Config,
		Observe:         shown,
		Store:           store,
		StoreMemory:     int64(f.StoreMem),
		BreakerFailures: int(f.Failures),
		BreakerProbe:    time.Duration(f.Probe),
		BreakerRetry:    time.Duration(f.Retry),
		Admin:           f.Admin,
		Metrics:         f.Metrics,
		AdminTokens:     tokens,
		TLSCert:         f.TLSCert,
		TLSKey:          f.TLSKey,
		ClientCA:        f.TLSClient,
		Drain:           f.Drain,
		Logger:          logger,
		MaxConnections:  f.MaxClients,
	}, nil
}

var errInterrupted = errors.New("stopped immediately by a second signal; requests in progress may have failed")

func runDaemon(c server.Config) error {
	// Catch signals before anything is set up, so that an early signal takes effect once there is
	// something to stop.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	srv, err := server.New(c)
	if err != nil {
		return inFlags(&c, err)
	}
	if err := srv.Start(context.Background()); err != nil {
		return inFlags(&c, listenProblem(err))
	}
	notifySystemd(c.Logger, "READY=1")
	failed := make(chan error, 1)
	go func() { failed <- srv.Wait() }() // ends when the server ends
	for {
		select {
		case err := <-failed:
			return errors.Join(err, stopDaemon(c.Logger, srv, signals))
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				c.Logger.Info("stint: stopping; a second signal stops it immediately", "signal", sig.String())
				return stopDaemon(c.Logger, srv, signals)
			}
			notifySystemd(c.Logger, "RELOADING=1")
			_ = srv.Reload() // Reload logs the error, and the last valid configuration stays in force
			notifySystemd(c.Logger, "READY=1")
		}
	}
}

// serverError is an error from package server. Its text names flags instead of fields of
// [server.Config].
type serverError struct {
	error
	text string
}

func (e *serverError) Error() string { return e.text }

func (e *serverError) Unwrap() error { return e.error }

// inFlags rewrites the text of err, an error from package server: it replaces the names of
// [server.Config] fields with the flags that set them.
func inFlags(c *server.Config, err error) error {
	text := err.Error()
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		text = "server: " + invalid.Err.Error()
	}
	listen := "--http"
	if c.Gateway != nil {
		listen = "--listen"
	}
	return &serverError{err, strings.NewReplacer(
		"set Config.AdminTokens", "use tokens (without --no-admin-token, or with --admin-token-file)",
		"Config.AdminTokens", "--admin-token-file", "Config.Admin", "--admin", "Config.Metrics", "--metrics",
		"Config.HTTP", listen, "Config.GRPC", "--grpc", "Config.MaxConnections", "--max-clients",
		"Config.Policies", "the configuration (--config)", "Config.Gateway.Routes", "--upstream or --route",
		"Config.StoreMemory", "--store-memory", "Config.BreakerFailures", "--breaker-failures",
		"Config.BreakerProbe", "--breaker-probe", "Config.BreakerRetry", "--breaker-retry",
		"Config.TLSCert", "--tls-cert", "Config.TLSKey", "--tls-key", "Config.ClientCA", "--tls-client-ca",
		"Config.APIPublic", "--api-public", "Config.APITokens", "--api-token-file",
		"Config.Envoy.Rules", "--envoy-config", "Config.Envoy.XDS.Server", "CONFIG_GRPC_XDS_SERVER_URL",
		"Config.Envoy.XDS.Cert", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
		"Config.Envoy.XDS.Key", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
		"Config.TLSOnlyGRPC", "GRPC_SERVER_USE_TLS", "Config.Drain", "--drain",
	).Replace(text)}
}

// listenProblem adds advice to err if the server could not listen on an address.
func listenProblem(err error) error {
	var listening *net.OpError
	switch {
	case !errors.As(err, &listening) || listening.Op != "listen":
		return err
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; stop the program that listens there, or choose another address", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; want an address of this host, or only a port for all addresses, such as :8080", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports below 1024 require a privilege: choose another port, or grant CAP_NET_BIND_SERVICE", err)
	}
	return err
}

// stopDaemon stops a server gracefully, or at once if another SIGINT or SIGTERM arrives.
func stopDaemon(logger *slog.Logger, srv *server.Server, signals <-chan os.Signal) error {
	notifySystemd(logger, "STOPPING=1")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		for {
			select {
			case <-ctx.Done():
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

// notifySystemd reports the state to a service manager, if there is one. See sd_notify(3).
func notifySystemd(logger *slog.Logger, state string) {
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
		logger.Warn("stint: the service manager could not be notified", "state", state, "error", err)
	}
}
