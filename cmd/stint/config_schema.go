package main

import "github.com/stint-limiter/stint/config"

type schemaCommand struct{}

func (*schemaCommand) Help() string {
	return `Editors use the schema to complete and explain keys. "stint config check" also finds mistakes that a schema cannot.

    stint config schema > stint.schema.json`
}

func (*schemaCommand) Run(s *system) error { return s.print(config.Schema()) }
