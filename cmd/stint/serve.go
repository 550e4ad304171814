package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/server"
)

type serveCommand struct {
	AsRatelimit   bool       `name:"as-ratelimit" help:"Take the place of envoyproxy/ratelimit: read its environment variables, such as REDIS_URL, CONFIG_TYPE and GRPC_SERVER_USE_TLS, and count in fixed windows unless --envoy-window is given. Flags override the environment. A program named ratelimit does all this without the flag."`
	HTTP          string     `name:"http" placeholder:"ADDR" default:":8080" help:"The address of the JSON API, forward-auth and probes. Empty turns it off. Default: ${default}."`
	GRPC          string     `name:"grpc" placeholder:"ADDR" default:":8081" help:"The address of Envoy's rate limit service, which requires --envoy-config. Default: ${default}."`
	EnvoyConfig   string     `name:"envoy-config" placeholder:"DIR" help:"Rules for Envoy's rate limit service, in the format of envoyproxy/ratelimit."`
	EnvoyWindow   string     `name:"envoy-window" placeholder:"WINDOW" enum:"sliding,fixed,calendar" default:"sliding" help:"sliding, fixed as in envoyproxy/ratelimit, or calendar for fixed windows with calendar months, as with USE_CALENDAR_MONTH_RATE_LIMIT. Default: ${default}."`
	EnvoyStop     bool       `name:"envoy-stop-over-limit" help:"With fixed windows, charge nothing to the other descriptors of a request in which one is over its limit, as STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT does. Sliding windows always do so."`
	EnvoyMerge    bool       `name:"envoy-merge-domains" help:"Let several files of --envoy-config configure one domain. By default, that is a mistake."`
	EnvoyToken    string     `name:"envoy-token-file" placeholder:"FILE" help:"Bearer tokens for Envoy's rate limit service, one per line. Without it, and without --tls-client-ca, anyone who can connect may use it over gRPC, only callers on this host may POST to /json, and negative hits are refused."`
	EnvoyHeaders  string     `name:"envoy-headers" placeholder:"WHICH" enum:"default,none,upstream,all" values:"none,upstream,all" default:"default" help:"Header fields that Envoy is asked to add: none, upstream for those of envoyproxy/ratelimit, or all. Default: all with sliding windows, none with fixed ones."`
	EnvoyLimit    headerName `name:"envoy-header-limit" placeholder:"NAME" help:"Another name for the header field RateLimit-Limit for Envoy."`
	EnvoyLeft     headerName `name:"envoy-header-remaining" placeholder:"NAME" help:"Another name for RateLimit-Remaining."`
	EnvoyReset    headerName `name:"envoy-header-reset" placeholder:"NAME" help:"Another name for RateLimit-Reset."`
	EnvoyShadow   bool       `name:"envoy-shadow" help:"Answer OK to every request from Envoy; statuses still show which limits are exceeded."`
	EnvoyQuota    bool       `name:"envoy-quota" help:"Treat every limit for Envoy as if it were in quota mode: a request passes if one of its descriptors has room."`
	EnvoyMetadata bool       `name:"envoy-metadata" help:"Add dynamic metadata to the answers to Envoy."`
	EnvoyMetrics  bool       `name:"envoy-metrics" negatable:"" help:"Add metrics with the names of envoyproxy/ratelimit, five for each limit. On with --as-ratelimit and USE_PROMETHEUS."`
	APIToken      string     `name:"api-token-file" placeholder:"FILE" help:"Bearer tokens for the API, one per line. Without it, and without --tls-client-ca, only callers on this host may use the API."`
	APIPublic     bool       `name:"api-public" help:"Let anyone who can connect use the API, and POST /json unless --envoy-token-file is given."`
	APIAdHoc      bool       `name:"api-ad-hoc" help:"Let callers of the API send limits with their requests."`

	daemonFlags

	// These fields are set only from the environment of envoyproxy/ratelimit.
	xds         *server.EnvoyXDS
	nearLimit   float64
	storePrefix string
	tlsOnlyGRPC bool
}

func (*serveCommand) Help() string {
	return `Without --config ` + builtInLimits + `. Files are read again when they
change and on SIGHUP; invalid ones change nothing. On SIGTERM and SIGINT readiness ends, and requests in progress
finish; behind a load balancer, --drain keeps serving until it notices. Redis need not be reachable at startup: until it is, the failure mode of the policies applies.

    stint serve --config stint.yaml
    stint serve --envoy-config /etc/ratelimit --store redis://localhost:6379/0
    REDIS_URL=localhost:6379 RUNTIME_ROOT=/srv stint serve --as-ratelimit
    stint serve --config stint.yaml --api-token-file tokens --tls-cert cert.pem --tls-key key.pem`
}

func (c *serveCommand) Run(s *system, k *kong.Context) error {
	config, err := c.server(s, &asRatelimit{getenv: os.Getenv,
		given: func(flag string) bool { return isGiven(k.Path, flag) }})
	if err != nil {
		return err
	}
	return runDaemon(config)
}

// server returns the configuration from the flags, and with --as-ratelimit also from the
// environment.
func (c *serveCommand) server(s *system, env *asRatelimit) (server.Config, error) {
	if c.AsRatelimit {
		if err := c.applyRatelimit(env); err != nil {
			return server.Config{}, err
		}
	}
	config, err := c.configuration(s)
	if err != nil {
		return config, err
	}
	env.warn(config.Logger)
	config.HTTP, config.GRPC = c.HTTP, c.GRPC
	config.TLSOnlyGRPC, config.StorePrefix = c.tlsOnlyGRPC, c.storePrefix
	config.Envoy = c.envoy()
	config.APITokens, config.APIPublic, config.APIAdHoc = c.APIToken, c.APIPublic, c.APIAdHoc
	if c.EnvoyConfig == "" && c.xds == nil {
		config.GRPC = ""
		config.Logger.Info("stint: Envoy's rate limit service is off, because --envoy-config is not set")
	}
	if c.Config == "" && !c.AsRatelimit {
		config.Logger.Info("stint: without --config " + builtInLimits)
	}
	return config, nil
}

func (c *serveCommand) envoy() server.Envoy {
	return server.Envoy{
		Rules: c.EnvoyConfig, XDS: c.xds, MergeDomains: c.EnvoyMerge, Tokens: c.EnvoyToken,
		Window: server.EnvoyWindow(c.EnvoyWindow), StopOverLimit: c.EnvoyStop,
		Headers: server.EnvoyHeaders(c.EnvoyHeaders), Metadata: c.EnvoyMetadata,
		HeaderLimit: string(c.EnvoyLimit), HeaderRemaining: string(c.EnvoyLeft), HeaderReset: string(c.EnvoyReset),
		ShadowMode: c.EnvoyShadow, QuotaMode: c.EnvoyQuota,
		Stats: c.EnvoyMetrics, NearLimit: c.nearLimit,
	}
}

type headerName string

// UnmarshalText parses an HTTP token.
func (h *headerName) UnmarshalText(text []byte) error {
	if !syntax.IsToken(string(text)) {
		return fmt.Errorf("invalid header name %q; want one such as X-Limit", text)
	}
	*h = headerName(text)
	return nil
}
