package server

import (
	"context"
	"errors"
	"fmt"
)

// undo is a stack of cleanup steps: the last one pushed runs first.
type undo struct{ steps []step }

type step struct {
	name string
	do   func(context.Context) error
}

// push adds a step. The name is that of the thing that the step ends.
func (u *undo) push(name string, do func(context.Context) error) {
	u.steps = append(u.steps, step{name, do})
}

// run runs every step, even if others fail. A second call finds nothing left to do.
func (u *undo) run(ctx context.Context) error {
	var errs []error
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		u.steps = u.steps[:len(u.steps)-1]
		if err := last.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("server: ending %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
