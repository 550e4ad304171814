package config

import (
	"time"

	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Config is a valid configuration. It must not be changed.
type Config struct {
	// Set holds the policies and the settings of the rate limit headers.
	Set *policy.Set
	// Store describes the store.
	Store Store
	// Instances is the number of processes that share the store; 0 means not set.
	Instances int
	// LocalBytes is the maximum memory in bytes for decisions without the store; 0 means not set.
	LocalBytes int64
	// BreakerFailures, BreakerProbe and BreakerRetry are the fields of resilience.Config with these
	// names; 0 means not set.
	BreakerFailures            int
	BreakerProbe, BreakerRetry time.Duration
	// Outbound lists the external APIs to call, sorted by name.
	Outbound []outbound.API
	// Webhooks are the addresses that receive a post when a subject reaches a share of a quota.
	Webhooks []Webhook
	// Warnings are settings that are probably not intended, in the order of files and lines.
	Warnings []Mistake
	// Gateway holds the settings of the gateway.
	Gateway Gateway
}

// Webhook is an address that receives events. Unlike the Webhook of package observe, it names a
// file instead of holding the key.
type Webhook struct {
	// URL begins with https://, or with http:// on a loopback address.
	URL string
	// KeyFile is the file with the secret that signs posts.
	KeyFile string
}
