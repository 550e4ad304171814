package redisstore

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := s.await(ctx, "command"); err != nil {
		return err
	}
	return s.command(ctx, c)
}

// command is Command for a connected store.
func (s *Store) command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	call, err := s.encodeCommand(&c)
	if call == nil {
		return s.wrap("command", err)
	}
	reply, err := call.script.run(ctx, &s.conn, call.keys, call.args)
	if err == nil {
		err = call.decodeCommand(reply)
	}
	return s.wrap("command", err)
}
