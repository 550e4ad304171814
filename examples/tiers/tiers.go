// Package tiers contains a complete example configuration. The command stint demo uses it.
package tiers

import _ "embed"

// YAML is the configuration, for config.Parse.
//
//go:embed stint.yaml
var YAML []byte
