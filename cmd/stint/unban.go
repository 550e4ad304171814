package main

import (
	"context"
	"fmt"
)

// unbanCommand ends a ban.
type unbanCommand struct {
	Subject string `arg:"" help:"Who, such as user:42."`
	changeFlags
}

// Help is the detailed help.
func (*unbanCommand) Help() string {
	return `Earlier bans and the denials that led to them are forgotten too: the next ban is the shortest again. What the subject
has used stays used; "stint reset" forgets that.

    stint unban ip:203.0.113.9`
}

// Run unbans.
func (c *unbanCommand) Run(s *system) error {
	return c.change(s, "", fmt.Sprintf("End the ban of %s?", c.Subject), fmt.Sprintf("%s is not banned", c.Subject),
		func(ctx context.Context, d desk) error { return d.Unban(ctx, c.Subject) })
}
