package main

import (
	"context"
	"fmt"

	"github.com/stint-limiter/stint/internal/server/control"
)

// unbanCommand ends a ban.
type unbanCommand struct {
	subjectFlags
	changeFlags
}

func (*unbanCommand) Help() string {
	return `Also clears earlier bans and strikes: the next ban is the shortest again. What the subject
has used stays used; "stint reset" clears that.

    stint unban ip:203.0.113.9`
}

func (c *unbanCommand) Run(s *system) error {
	return c.change(s, "", fmt.Sprintf("End the ban of %s?", c.Subject), "is not banned",
		func(ctx context.Context, a admin) (control.Named, error) { return a.Unban(ctx, c.target()) })
}
