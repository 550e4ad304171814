package redisstore

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	k, err := s.newShownKeys()
	if c.Kind == stint.CommandGiveBack { // which requests lead to
		k, err = s.newKeys()
	}
	if err != nil {
		return s.wrap("command", err)
	}
	states, places := s.commandKeys(&k, &c)
	if len(k.ends) == 0 {
		return nil // only places, which are released
	}
	keys := k.strings()
	err = s.sendCommand(ctx, &c, keys, states, places)
	if moving(err) {
		err = s.commandMigrating(ctx, &c, keys, states, places)
	}
	return s.wrap("command", err)
}

// sendCommand makes one call of command.lua.
func (s *Store) sendCommand(ctx context.Context, c *stint.Command, keys []string, states, places []part) error {
	call := s.nextCall()
	reply, err := commandScript.run(ctx, s.conn.get(), keys, commandArgs(c, states, places, call, s.clock()))
	if err != nil {
		return err
	}
	return decodeCommand(reply, call)
}

// commandKeys adds the keys of a command. It returns the parts that it acts on: states, and the
// holders that are reset.
func (s *Store) commandKeys(k *keys, c *stint.Command) (states, places []part) {
	if c.Kind != stint.CommandReset && c.Kind != stint.CommandGiveBack {
		k.inScope(c.Subject, "", "ban")
		k.inScope(c.Subject, "", "strikes")
		return nil, nil
	}
	for _, p := range appendParts(nil, 0, 0, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}) {
		if !p.holders() {
			states = append(states, p)
		} else if c.Kind == stint.CommandReset {
			places = append(places, p)
		}
	}
	if len(places) > 0 {
		k.inScope(c.Subject, c.Scope, "settled")
	}
	if c.Kind == stint.CommandReset {
		k.inScope(c.Subject, c.Scope, seenKey)
	}
	for i := range places {
		k.ofPart(&places[i])
	}
	s.sets.fill(states)
	for i := range states {
		k.ofPart(&states[i])
	}
	return states, places
}
