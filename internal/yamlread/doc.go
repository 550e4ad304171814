// Package yamlread reads YAML files strictly, for stint's configuration and Envoy's rules: it turns
// text into nodes, reports errors with their position and a fix, and resolves aliases so that they
// neither hide anything nor grow without bound.
package yamlread
