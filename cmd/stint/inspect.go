package main

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint/server/control"
)

// inspectCommand shows what a subject has used.
type inspectCommand struct {
	Subject string `arg:"" help:"Who, such as user:42."`
	Tier    string `name:"tier" placeholder:"NAME" help:"Only the limits of this tier."`
	Policy  string `name:"policy" placeholder:"NAME" help:"Only the limits of this policy."`
	Scope   string `name:"scope" placeholder:"SCOPE" help:"Only the limits that count there; with --limit, where it counts."`
	All     bool   `name:"all" help:"Also the limits of which nothing is used."`
	deskFlags
}

// Help is the detailed help.
func (*inspectCommand) Help() string {
	return `Every limit under which a subject like this one could be counted, with its window on a time line: what was charged when,
and when that comes back. The same counts may be shown under several tiers, for a name does not tell its tier.

    stint inspect user:42 --tier pro
    stint inspect igdb:api
    stint inspect job:nightly --store redis://localhost:6379/0 --limit 10/1h`
}

// Run shows.
func (c *inspectCommand) Run(s *system) error {
	ctx := context.Background()
	d, closing, err := c.open(ctx, s, c.Scope)
	if err != nil {
		return err
	}
	defer closing()
	told, err := d.Subject(ctx, c.Subject)
	if err != nil {
		return problem(err)
	}
	told.Limits = slices.DeleteFunc(told.Limits, func(l control.Limit) bool {
		return c.Tier != "" && l.Tier != "" && l.Tier != c.Tier || c.Policy != "" && l.Policy != c.Policy || c.Scope != "" && l.Scope != c.Scope
	})
	if c.JSON {
		return s.printJSON(told)
	}
	return s.print(subjectText(s, &told, c.All))
}
