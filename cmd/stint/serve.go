package main

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/server"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// serveCommand is the daemon.
type serveCommand struct {
	HTTP          string           `name:"http" placeholder:"ADDR" default:":8080" help:"Where the JSON API, forward-auth and probes are; empty is nowhere. Default: ${default}."`
	GRPC          string           `name:"grpc" placeholder:"ADDR" default:":8081" help:"Where Envoy's rate limit service is, if there is --envoy-config. Default: ${default}."`
	EnvoyConfig   string           `name:"envoy-config" placeholder:"DIR" help:"Rules for Envoy's rate limit service, as envoyproxy/ratelimit reads them."`
	EnvoyWindow   envoyrls.Window  `name:"envoy-window" placeholder:"WINDOW" values:"sliding,fixed" default:"sliding" help:"sliding, or fixed to count as envoyproxy/ratelimit does. Default: ${default}."`
	EnvoyStop     bool             `name:"envoy-stop-over-limit" help:"With fixed windows, charge nothing to the other descriptors of a request in which one is over its limit, as STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT does. Sliding windows always do so."`
	EnvoyMerge    bool             `name:"envoy-merge-domains" help:"Let several files of --envoy-config configure one domain. Without it the second one is a mistake."`
	EnvoyToken    string           `name:"envoy-token-file" placeholder:"FILE" help:"Bearer tokens for Envoy's rate limit service, one to a line. Without it, and without --tls-client-ca, anyone who can connect may use it over gRPC, only callers on this host may POST to /json, and negative hits are refused."`
	EnvoyHeaders  envoyrls.Headers `name:"envoy-headers" placeholder:"WHICH" values:"none,upstream,all" default:"default" help:"Header fields that Envoy is asked to add: none, upstream for those of envoyproxy/ratelimit, or all. Default: all with sliding windows, none with fixed ones."`
	EnvoyLimit    headerName       `name:"envoy-header-limit" placeholder:"NAME" help:"What the header field RateLimit-Limit for Envoy is called instead."`
	EnvoyLeft     headerName       `name:"envoy-header-remaining" placeholder:"NAME" help:"What RateLimit-Remaining is called instead."`
	EnvoyReset    headerName       `name:"envoy-header-reset" placeholder:"NAME" help:"What RateLimit-Reset is called instead."`
	EnvoyShadow   bool             `name:"envoy-shadow" help:"Answer OK to everything Envoy asks; statuses still tell which limits are exceeded."`
	EnvoyQuota    bool             `name:"envoy-quota" help:"Treat every limit of Envoy's as one in quota mode: a request passes if one of its descriptors has room."`
	EnvoyMetadata bool             `name:"envoy-metadata" help:"Add dynamic metadata to the answers to Envoy."`
	APIToken      string           `name:"api-token-file" placeholder:"FILE" help:"Bearer tokens for the API, one to a line. Without it, and without --tls-client-ca, only callers on this host may use the API."`
	APIPublic     bool             `name:"api-public" help:"Let anyone who can connect use the API, and POST /json unless there is --envoy-token-file."`
	APIAdHoc      bool             `name:"api-ad-hoc" help:"Let callers of the API send limits along."`
	ChargeKey     string           `name:"charge-key-file" placeholder:"FILE" help:"The key by which charges are signed. Processes that share it can refund each other's."`

	daemonFlags
}

// Help is the detailed help.
func (*serveCommand) Help() string {
	return `Without --config ` + builtInLimits + `. Files are read again when they
change and on SIGHUP; those that are wrong change nothing. SIGTERM and SIGINT drain: readiness goes first, then
requests are finished. Redis need not be there at the start: until it is, the policies' failure mode decides.

    stint serve --config stint.yaml
    stint serve --envoy-config /etc/ratelimit --store redis://localhost:6379/0
    stint serve --config stint.yaml --api-token-file tokens --tls-cert cert.pem --tls-key key.pem`
}

// Run serves until a signal ends it.
func (c *serveCommand) Run(s *system) error {
	config, err := c.configuration(s)
	if err != nil {
		return err
	}
	config.HTTP, config.GRPC = c.HTTP, c.GRPC
	config.Envoy, config.EnvoyTokens = c.EnvoyConfig, c.EnvoyToken
	config.EnvoyOptions, config.EnvoyMerge = c.envoyOptions(), c.EnvoyMerge
	config.API = server.API{Tokens: c.APIToken, Public: c.APIPublic, AdHoc: c.APIAdHoc, ChargeKey: c.ChargeKey}
	if c.EnvoyConfig == "" {
		config.GRPC = ""
		config.Logger.Info("stint: Envoy's rate limit service is off, for there is no --envoy-config")
	}
	if c.Config == "" {
		config.Logger.Info("stint: without --config " + builtInLimits)
	}
	return runDaemon(config)
}

// envoyOptions are how Envoy's rules are applied.
func (c *serveCommand) envoyOptions() envoyrls.Options {
	return envoyrls.Options{
		Window: c.EnvoyWindow, StopOverLimit: c.EnvoyStop,
		Headers: c.EnvoyHeaders, Metadata: c.EnvoyMetadata,
		HeaderNames: envoyrls.HeaderNames{
			Limit: string(c.EnvoyLimit), Remaining: string(c.EnvoyLeft), Reset: string(c.EnvoyReset),
		},
		ShadowMode: c.EnvoyShadow, QuotaMode: c.EnvoyQuota,
	}
}

// headerName is what a header field can be called.
type headerName string

// UnmarshalText reads a token of HTTP.
func (h *headerName) UnmarshalText(text []byte) error {
	if !words.IsToken(string(text)) {
		return fmt.Errorf("%q is not the name of a header field; want one such as X-Limit", text)
	}
	*h = headerName(text)
	return nil
}
