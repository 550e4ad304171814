package config

import (
	"time"

	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Config is a valid configuration. It must not be changed.
type Config struct {
	// Set holds the policies, with the settings of the rate limit headers.
	Set *policy.Set
	// Store holds the settings of the store.
	Store Store
	// Instances is the number of processes that share the store, or 0 if it is not set.
	Instances int
	// LocalBytes is the maximum memory in bytes for decisions without the store, or 0 if it is not
	// set.
	LocalBytes int64
	// BreakerFailures, BreakerProbe and BreakerRetry are the fields of resilience.Config with these
	// names. They are 0 if they are not set.
	BreakerFailures            int
	BreakerProbe, BreakerRetry time.Duration
	// Outbound lists the external APIs that the program calls, sorted by name.
	Outbound []outbound.API
	// Webhooks lists the addresses to which an event is posted when the usage of a subject reaches
	// a share of a limit, such as 80%.
	Webhooks []Webhook
	// Warnings lists settings that are probably not intended, in the order of files and lines.
	Warnings []Mistake
	// Gateway holds the settings of the gateway.
	Gateway Gateway
}

// Webhook is an address to which events are posted. Unlike the Webhook of package observe, it
// contains the name of a key file instead of the key.
type Webhook struct {
	// URL is the address. It begins with https://, or with http:// if it is a loopback address.
	URL string
	// KeyFile is the name of the file with the secret that signs messages.
	KeyFile string
}
