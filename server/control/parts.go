package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// hashMark begins what stands for a scope that was too long to be kept. No policy's name begins with it.
const hashMark = "~"

// inParts returns places with the parts in the place of what is divided into them, as far as the store can tell. What may
// have other parts stays divided, beside those that are known.
func (d *Desk) inParts(ctx context.Context, subject string, places []place) []place {
	if !slices.ContainsFunc(places, isDivided) {
		return places
	}
	scopes, err := d.finds.scopes(ctx, d.c.Inspector, subject)
	all := err == nil && unread(scopes) == nil
	var whole []place
	for _, p := range places {
		parts := p.parts(scopes)
		whole = append(whole, parts...)
		if !p.divided || !all || len(parts) == 0 {
			p.divided = p.divided && !all
			whole = append(whole, p)
		}
	}
	return whole
}

// resetParts forgets what a subject has used in the parts of places. If some may be left, the error is why.
func (d *Desk) resetParts(ctx context.Context, subject string, places []place) error {
	if d.c.Inspector == nil {
		return ErrBlind
	}
	scopes, err := d.c.Inspector.Scopes(ctx, subject)
	if err != nil {
		return err
	}
	var parts []place
	for i := range places {
		parts = append(parts, places[i].parts(scopes)...)
	}
	if err := d.reset(ctx, subject, parts); err != nil {
		return err
	}
	return unread(scopes)
}

func isDivided(p place) bool { return p.divided }

// parts returns those of a place that are among scopes; none if it is not divided.
func (p *place) parts(scopes []string) (parts []place) {
	for _, scope := range scopes {
		of, _, hashed := keypart.SumIn(scope)
		if p.divided && (strings.HasPrefix(scope, p.scope+":") || hashed && of == p.scope) {
			part := *p
			part.scope, part.divided = scope, false
			parts = append(parts, part)
		}
	}
	return parts
}

// unread says why there may be parts that are not among the scopes that a store listed; nil if there are none.
func unread(scopes []string) error {
	hashed := 0
	for _, scope := range scopes {
		if strings.HasPrefix(scope, hashMark) {
			hashed++
		}
	}
	switch {
	case len(scopes) >= stint.MaxScopes && hashed < len(scopes):
		return invalid("the store listed %d scopes, and lists no more at once; reset it again", len(scopes))
	case hashed > 0:
		return invalid("the store keeps hashes of long names, and cannot tell %d of its scopes; what is counted there leaves with its window", hashed)
	}
	return nil
}

// left is the error of a reset that has forgotten everything but parts of what is divided.
func left(places []place, why error) error {
	var names []string
	for _, p := range places {
		if p.divided && !slices.Contains(names, p.policy) {
			names = append(names, p.policy)
		}
	}
	text := "what it used in parts of " + strings.Join(names, ", ") + " may not all be forgotten, the rest is"
	if mistake, ok := errors.AsType[*stint.InvalidError](why); ok {
		return invalid("%s: %w", text, mistake.Err)
	}
	return fmt.Errorf("control: %s: %w", text, why)
}
