package main

import "context"

// peekCommand asks whether a subject may do something, and charges nothing.
type peekCommand struct{ takeFlags }

func (*peekCommand) Help() string {
	return `Like take, but nothing is charged. The exit code is 0 if it would be allowed, and 1 if it would be denied.

    stint peek user:42 --tier pro
    stint peek ip:203.0.113.9 --json`
}

func (c *peekCommand) Run(s *system) error {
	return c.take(context.Background(), s, true, false)
}
