package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/server/control"
)

// The first and longest pauses between attempts to reconnect.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
)

// reconnecting calls follow, which must follow a stream and call worked when the stream is
// established. Once that has happened, reconnecting prints a message and calls follow again
// whenever the connection is lost. It returns nil when the context ends, and any other error from
// follow immediately.
func reconnecting(ctx context.Context, s *system, follow func(worked func()) error) error {
	worked, wait := false, firstPause
	for {
		err := follow(func() { worked, wait = true, firstPause })
		var lost *control.UnreachableError
		switch {
		case ctx.Err() != nil:
			return nil
		case !worked || !errors.As(err, &lost):
			return err
		}
		fmt.Fprintf(s.errors(), "stint: %v; trying again in %s\n", lost, figures.Length(wait))
		pause(ctx, wait)
		wait = min(2*wait, lastPause)
	}
}
