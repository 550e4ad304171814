package main

import "github.com/stint-limiter/stint/policy"

// schemaCommand prints the JSON Schema of configurations.
type schemaCommand struct{}

// Help is the detailed help.
func (*schemaCommand) Help() string {
	return `An editor that has it completes and explains the keys. "stint config check" finds mistakes that no schema can.

    stint config schema > stint.schema.json`
}

// Run prints the schema.
func (*schemaCommand) Run(s *system) error { return s.print(policy.Schema()) }
