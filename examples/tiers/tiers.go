// Package tiers is a complete configuration: an example, and what the demo runs without files.
package tiers

import _ "embed"

// YAML is the configuration, for config.Parse.
//
//go:embed stint.yaml
var YAML []byte
