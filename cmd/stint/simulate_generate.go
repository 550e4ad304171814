package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/internal/simulate/loggen"
)

type simulateGenerateCommand struct {
	Lines int          `name:"lines" placeholder:"N" default:"100000" help:"The number of lines. Default: ${default}."`
	Users int          `name:"users" placeholder:"N" default:"2000" help:"The number of users. Default: ${default}."`
	From  timeFlag     `name:"from" placeholder:"TIME" default:"2026-03-02" help:"When the log begins. Default: ${default}."`
	Span  durationFlag `name:"span" placeholder:"LENGTH" default:"3d" help:"How long it lasts. Default: ${default}."`
	Seed  uint64       `name:"seed" placeholder:"N" default:"1" help:"A different seed makes a different log. Default: ${default}."`
	JSON  bool         `name:"json" help:"Write lines of JSON."`
}

func (*simulateGenerateCommand) Help() string {
	return `Writes an access log of an imaginary shop, with a few frequent and many rare users, days and nights, a crawler, and an
attacker who guesses passwords. The same flags make the same log.

    stint simulate-generate > access.log
    stint simulate --config examples/tiers/stint.yaml access.log`
}

func (c *simulateGenerateCommand) Validate() error {
	switch {
	case c.Lines < 1 || c.Users < 1:
		return fmt.Errorf("--lines %d --users %d; want 1 or more of each", c.Lines, c.Users)
	case time.Duration(c.Span)%time.Minute != 0:
		return fmt.Errorf("--span: %v; want whole minutes", time.Duration(c.Span))
	}
	return nil
}

// Run writes the log. It is not an error if the reader closes the pipe.
func (c *simulateGenerateCommand) Run(s *system) error {
	err := loggen.Generate(s.Stdout, loggen.Options{
		Seed: c.Seed, Lines: c.Lines, From: c.From.Time, Span: time.Duration(c.Span), Users: c.Users, JSON: c.JSON,
	})
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
