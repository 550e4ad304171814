package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/server/control"
)

type resetCommand struct {
	subjectFlags
	Scope string `name:"scope" placeholder:"SCOPE" help:"The scope, with --limit."`
	changeFlags
}

func (*resetCommand) Help() string {
	return `Clears everything that the subject has used, under every limit that "stint inspect" shows. A ban stays in
force; "stint unban" ends it.

    stint reset user:42
    stint reset job:nightly --store redis://localhost:6379/0 --limit 10/1h --yes`
}

func (c *resetCommand) Validate(k *kong.Context) error {
	if c.Scope != "" && len(c.Limit) == 0 {
		return errors.New("--scope needs --limit; without it all scopes are reset")
	}
	return c.adminFlags.Validate(k)
}

type changeFlags struct {
	Yes bool `name:"yes" short:"y" help:"Do not ask for confirmation."`
	adminFlags
}

// change asks for confirmation, calls do to make the change, and prints the result with
// [system.showChange].
func (f *changeFlags) change(s *system, scope, question, done string,
	do func(context.Context, admin) (control.Named, error)) error {
	ctx := context.Background()
	return f.act(ctx, s, scope, func(a admin) error {
		if err := s.confirm(f.Yes, question); err != nil {
			return err
		}
		who, err := do(ctx, a)
		if err != nil {
			return err
		}
		return s.showChange(f.JSON, who, done, time.Time{})
	})
}

// showChange prints the result of a change. As text, it prints the subject, the phrase in done,
// such as "is not banned", and the subject's note. As JSON, it prints the subject, the note and, if
// until is not zero, the time at which the override ends.
func (s *system) showChange(asJSON bool, who control.Named, done string, until time.Time) error {
	return s.show(asJSON, struct {
		OK bool `json:"ok"`
		control.Named
		Until time.Time `json:"until,omitzero"`
	}{true, who, until}, func() []byte {
		return []byte(oneLine(who.Subject) + " " + done + noteText(who.Note) + "\n")
	})
}

func (c *resetCommand) Run(s *system) error {
	return c.change(s, c.Scope, fmt.Sprintf("Reset everything that %s has used?",
		c.Subject), "is reset: nothing is used",
		func(ctx context.Context, a admin) (control.Named, error) { return a.Reset(ctx, c.target()) })
}
