package redisstore

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := s.await(ctx, "command"); err != nil {
		return err
	}
	return s.command(ctx, c)
}

// command is Command once there is a connection.
func (s *Store) command(ctx context.Context, c stint.Command) error {
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
	states, notes := s.commandKeys(&k, &c)
	if len(k.ends) == 0 {
		return nil // only places, which are released
	}
	call := s.nextCall()
	reply, err := commandScript.run(ctx, &s.conn, k.strings(), commandArgs(&c, states, notes, call, s.clock()))
	if err == nil {
		err = decodeCommand(reply, call)
	}
	return s.wrap("command", err)
}

// note is that a state, or the holders of a limit, are reset: how the key ends, and for how long
// that matters.
type note struct {
	name string
	life time.Duration
}

// commandKeys adds the keys of a command. It returns the states that it acts on, and the resets to
// note.
func (s *Store) commandKeys(k *keys, c *stint.Command) (states []part, notes []note) {
	if c.Kind != stint.CommandReset && c.Kind != stint.CommandGiveBack {
		k.inScope(c.Subject, "", "ban")
		k.inScope(c.Subject, "", "strikes")
		return nil, nil
	}
	reset := c.Kind == stint.CommandReset
	var places []part
	for _, p := range appendParts(nil, 0, 0, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}) {
		if !p.holders() {
			states = append(states, p)
		} else if reset {
			places = append(places, p)
			notes = append(notes, note{p.end(), p.limits[0].Window})
		}
	}
	for i := 0; reset && i < len(states); i++ {
		notes = append(notes, note{states[i].end(), storebounds.LateSettle * time.Microsecond})
	}
	if len(notes) > 0 {
		k.inScope(c.Subject, c.Scope, "settled")
	}
	if reset {
		k.inScope(c.Subject, c.Scope, seenKey)
	}
	for i := range places {
		k.ofPart(&places[i])
	}
	s.sets.fill(states)
	for i := range states {
		k.ofPart(&states[i])
	}
	return states, notes
}
