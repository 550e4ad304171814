package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/server/control"
)

// resetCommand forgets what a subject has used.
type resetCommand struct {
	subjectFlags
	Scope string `name:"scope" placeholder:"SCOPE" help:"Where, with --limit."`
	changeFlags
}

// Help is the detailed help.
func (*resetCommand) Help() string {
	return `Everything that the subject has used is given back, under every limit that "stint inspect" shows. A ban stays in
force; "stint unban" ends it.

    stint reset user:42
    stint reset job:nightly --store redis://localhost:6379/0 --limit 10/1h --yes`
}

// Validate is called when the flags have been read.
func (c *resetCommand) Validate(k *kong.Context) error {
	if c.Scope != "" && len(c.Limit) == 0 {
		return errors.New("--scope goes with --limit; without it all scopes are reset")
	}
	return c.deskFlags.Validate(k)
}

// changeFlags are those of commands that change something.
type changeFlags struct {
	Yes bool `name:"yes" short:"y" help:"Do not ask whether that is meant."`
	deskFlags
}

// change does something at a desk, after a question, and says what was done to whom.
func (f *changeFlags) change(s *system, scope, question, done string, do func(context.Context, desk) (control.Named, error)) error {
	ctx := context.Background()
	d, closing, err := f.open(ctx, s, scope)
	if err != nil {
		return err
	}
	defer closing()
	if !f.Yes {
		if sure, err := s.confirm(question); err != nil || !sure {
			fmt.Fprintln(s.errors(), "stint: nothing was changed")
			return orTold(err)
		}
	}
	who, err := do(ctx, d)
	if err != nil {
		return f.problem(err)
	}
	if f.JSON {
		return s.printJSON(struct {
			OK bool `json:"ok"`
			control.Named
		}{true, who})
	}
	return s.print([]byte(oneLine(who.Subject) + " " + done + noteText(who.Note) + "\n"))
}

// orTold returns an error, or that all has been said.
func orTold(err error) error {
	if err == nil {
		return toldError{}
	}
	return err
}

// Run forgets.
func (c *resetCommand) Run(s *system) error {
	return c.change(s, c.Scope, fmt.Sprintf("Forget all that %s has used?", c.Subject), "is as if it had used nothing",
		func(ctx context.Context, d desk) (control.Named, error) { return d.Reset(ctx, c.target()) })
}
