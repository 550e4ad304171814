// Package tiers is a complete configuration as an example, and for what is to run without files.
package tiers

import _ "embed"

// YAML is the configuration, for policy.Parse.
//
//go:embed stint.yaml
var YAML []byte
