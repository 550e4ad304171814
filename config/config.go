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
	// Instances is how many processes share the store as far as the configuration knows; 0 if it
	// does not say.
	Instances int
	// LocalBytes is how much memory deciding without the store may take; 0 if the configuration
	// does not say.
	LocalBytes int64
	// BreakerFailures, BreakerProbe and BreakerRetry are those of resilience.Config; 0 if the
	// configuration does not say.
	BreakerFailures            int
	BreakerProbe, BreakerRetry time.Duration
	// Outbound are the APIs that are called, by name.
	Outbound []outbound.API
	// Warnings are what is probably not intended, in the order of the files and their lines.
	Warnings []Mistake
	// Gateway is what the configuration says about a gateway.
	Gateway Gateway
}

// Of returns the configuration that a set was read from. Of a set that was made in Go, or nil, it
// has nothing but the set.
func Of(set *policy.Set) *Config {
	if set != nil {
		if c, ok := set.Spec().Source.(*Config); ok {
			return c
		}
	}
	return &Config{Set: set}
}

// Store is where a configuration wants its limits to be kept.
type Store struct {
	// URL is "memory" or that of a Redis.
	URL string
	// Prefix is what keys begin with; "" is the default of the store.
	Prefix string
	// CAFile has the CA certificates for a Redis over TLS, CertFile and KeyFile a client
	// certificate for it. URL names them too, as parameters, if it is that of a Redis.
	CAFile, CertFile, KeyFile string
	// Memory is how many bytes a store in memory may use; 0 is the default of the store.
	Memory int64
	// NameKeyFile has the key that subjects are hashed with in Redis, and PreviousNameKeyFile the
	// one that it replaces. "" is none.
	NameKeyFile, PreviousNameKeyFile string
}
