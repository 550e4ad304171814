package setinfo

import (
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/policy"
)

// Config returns the configuration that a set was read from. Of a set that was made in Go, or nil,
// it has nothing but the set.
func Config(set *policy.Set) *config.Config {
	if set != nil {
		if c, ok := set.Spec().Source.(*config.Config); ok {
			return c
		}
	}
	return &config.Config{Set: set}
}
