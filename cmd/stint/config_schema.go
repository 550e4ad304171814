package main

import "github.com/stint-limiter/stint/config"

// schemaCommand prints the JSON Schema of configurations.
type schemaCommand struct{}

func (*schemaCommand) Help() string {
	return `Editors that use it complete and explain the keys. "stint config check" finds mistakes that no schema can.

    stint config schema > stint.schema.json`
}

func (*schemaCommand) Run(s *system) error { return s.print(config.Schema()) }
