package config

import (
	"time"

	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// Config is a configuration that has been read and found good. It must not be changed.
type Config struct {
	// Set has the policies, and what responses say about limits.
	Set *policy.Set
	// Store is where the limits are kept.
	Store Store
	// Instances is how many processes share the store; 0 if the configuration does not say.
	Instances int
	// LocalBytes is how much memory deciding without the store may take; 0 is not set.
	LocalBytes int64
	// BreakerFailures, BreakerProbe and BreakerRetry are those of resilience.Config; 0 if the
	// configuration does not say.
	BreakerFailures            int
	BreakerProbe, BreakerRetry time.Duration
	// Outbound are the APIs that are called, by name.
	Outbound []outbound.API
	// Webhooks are where shares of quotas are posted that subjects reach.
	Webhooks []Webhook
	// Warnings are what is probably not intended, in the order of the files and their lines.
	Warnings []Mistake
	// Gateway is what the configuration says about a gateway.
	Gateway Gateway
}

// Webhook is an address that events are posted to. Those of package observe have the key itself.
type Webhook struct {
	// URL begins with https://, or with http:// on a loopback address.
	URL string
	// KeyFile is the file with the secret that signs what is posted.
	KeyFile string
}
