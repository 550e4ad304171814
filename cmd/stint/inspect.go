package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/server/control"
)

type inspectCommand struct {
	subjectFlags
	Tier   string `name:"tier" placeholder:"NAME" help:"Only the limits of this tier."`
	Policy string `name:"policy" placeholder:"NAME" help:"Only the limits of this policy."`
	Scope  string `name:"scope" placeholder:"SCOPE" help:"Only limits that count in this scope; with --limit, the scope in which it counts."`
	All    bool   `name:"all" help:"Include unused limits."`
	adminFlags
}

func (*inspectCommand) Help() string {
	return `Shows every limit under which the subject could be counted, with its window on a timeline: what was charged when,
and when it becomes available again. The same counts may appear under several tiers, because a subject does not identify its tier.

    stint inspect user:42 --tier pro
    stint inspect igdb:api
    stint inspect job:nightly --store redis://localhost:6379/0 --limit 10/1h`
}

func (c *inspectCommand) Run(s *system) error {
	ctx := context.Background()
	return c.act(ctx, s, c.Scope, func(a admin) error {
		result, err := a.Subject(ctx, c.target())
		if err != nil {
			return err
		}
		if err := c.narrow(&result); err != nil {
			return usageMistake(err)
		}
		return s.show(c.JSON, result, func() []byte { return subjectText(s, &result, c.All) })
	})
}

// narrow keeps only the limits that the flags select. It returns an error if no limit has the tier,
// policy or scope that a flag names. With --tier, it also keeps limits that are the same for
// several tiers, because these limits have no tier.
func (c *inspectCommand) narrow(result *control.Subject) error {
	for _, by := range []struct {
		what, name string
		of         func(*control.Limit) string
	}{
		{"tier", c.Tier, func(l *control.Limit) string { return l.Tier }},
		{"policy", c.Policy, func(l *control.Limit) string { return l.Policy }},
		{"scope", c.Scope, func(l *control.Limit) string { return l.Scope }},
	} {
		var names []string
		for i := range result.Limits {
			if name := oneLine(by.of(&result.Limits[i])); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if by.name != "" && !slices.Contains(names, by.name) {
			return fmt.Errorf("%s has no limit of the %s %q; available: %s%s",
				oneLine(result.Subject), by.what, by.name, cmp.Or(strings.Join(names, ", "),
					"none"), messages.Hint(by.name, names))
		}
	}
	result.Limits = slices.DeleteFunc(result.Limits, func(l control.Limit) bool {
		return c.Tier != "" && l.Tier != "" && l.Tier != c.Tier || c.Policy != "" && l.Policy != c.Policy ||
			c.Scope != "" && l.Scope != c.Scope
	})
	return nil
}
