package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/server/control"
)

type banCommand struct {
	subjectFlags
	For durationFlag `name:"for" placeholder:"TIME" default:"1h" help:"How long: 30s, 10m, 1h30m, 7d. Default: ${default}."`
	changeFlags
}

func (*banCommand) Help() string {
	return `Denies all requests of the subject wherever bans apply, in all scopes and whatever it has used. A ban in force that
ends later is kept; to shorten a ban, unban first.
A ban of an address includes all addresses that are counted together with it, such as an IPv6 /64; the output shows them.
A network of many subjects cannot be banned; a policy can deny it.

    stint ban ip:203.0.113.9 --for 24h
    stint ban user:42 --for 10m --yes`
}

func (c *banCommand) Run(s *system) error {
	length := time.Duration(c.For)
	return c.change(s, "", fmt.Sprintf("Ban %s for %s?", c.Subject,
		figures.Length(length)), "is banned for "+figures.Length(length),
		func(ctx context.Context, a admin) (control.Named, error) { return a.Ban(ctx, c.target(), length) })
}

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
