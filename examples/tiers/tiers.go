// Package tiers is a complete example configuration, which the demo uses when it has no files.
package tiers

import _ "embed"

// YAML is the configuration, for config.Parse.
//
//go:embed stint.yaml
var YAML []byte
