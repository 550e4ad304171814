package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/keypart"
)

// inParts replaces each divided counter with those of its parts that the store lists. It also keeps
// a divided counter that has no listed parts, or whose list of parts may be incomplete.
func (d *Admin) inParts(ctx context.Context, subject string, counters []counter) []counter {
	if !slices.ContainsFunc(counters, isDivided) {
		return counters
	}
	scopes, err := d.scopes.list(ctx, d.inspector, subject)
	all := err == nil && unlistedParts(scopes) == nil
	var whole []counter
	for _, p := range counters {
		parts := p.parts(scopes)
		whole = append(whole, parts...)
		if !p.Divided || !all || len(parts) == 0 {
			p.Divided = p.Divided && !all
			whole = append(whole, p)
		}
	}
	return whole
}

// resetParts clears the parts of counters. It returns an error if some parts may remain.
func (d *Admin) resetParts(ctx context.Context, subject string, counters []counter) error {
	if d.inspector == nil {
		return ErrNotInspectable
	}
	scopes, err := d.inspector.Scopes(ctx, subject)
	if err != nil {
		return err
	}
	var parts []counter
	for i := range counters {
		parts = append(parts, counters[i].parts(scopes)...)
	}
	if err := d.reset(ctx, subject, parts); err != nil {
		return err
	}
	return unlistedParts(scopes)
}

func isDivided(p counter) bool { return p.Divided }

// parts returns the parts of p that are in scopes. A counter that is not divided has no parts.
func (p *counter) parts(scopes []string) (parts []counter) {
	for _, scope := range scopes {
		of, _, hashed := keypart.SumIn(scope)
		if p.Divided && (strings.HasPrefix(scope, p.Scope+":") || hashed && of == p.Scope) {
			part := *p
			part.Scope, part.Divided = scope, false
			parts = append(parts, part)
		}
	}
	return parts
}

// unlistedParts returns an error if parts may be missing from scopes, a list from the store.
func unlistedParts(scopes []string) error {
	hashed := 0
	for _, scope := range scopes {
		if strings.HasPrefix(scope, string(keypart.HashMark)) { // no policy's name begins with this mark
			hashed++
		}
	}
	switch {
	case len(scopes) >= driver.MaxScopes && hashed < len(scopes):
		return invalid("the store listed %d scopes, the most it lists at once; reset it again", len(scopes))
	case hashed > 0:
		return invalid("the store keeps only hashes of long names, and cannot name %d of its scopes; the counts there expire with their windows",
			hashed)
	}
	return nil
}

// partsLeft wraps the error from a reset in an error that says that some parts may not have been
// reset.
func partsLeft(counters []counter, why error) error {
	var names []string
	for _, p := range counters {
		if p.Divided {
			names = appendNew(names, p.policy)
		}
	}
	text := "usage in some parts of " + strings.Join(names, ", ") + " may not have been reset; all other usage was"
	if mistake, ok := errors.AsType[*stint.InvalidError](why); ok {
		return invalid("%s: %w", text, mistake.Err)
	}
	return fmt.Errorf("control: %s: %w", text, why)
}

// scopeCache caches the scopes of subjects. To list the scopes of a subject, a store scans all its
// contents, and a page that shows a subject requests the list repeatedly. To leave the store time
// for other work, only one caller scans at a time, and a list is valid for several times the
// duration of its scan.
type scopeCache struct {
	turn chan struct{} // a semaphore of capacity 1, held by list
	last map[string]scopeList
}

type scopeList struct {
	scopes []string
	err    error
	until  time.Time // when to scan again
}

const (
	// scanTime is the timeout of a scan. A list of scopes is valid for cacheFactor times the
	// duration of its scan.
	scanTime    = 2 * time.Second
	cacheFactor = 4
)

func (c *scopeCache) list(ctx context.Context, store driver.Inspector, subject string) ([]string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	for known, found := range c.last {
		if !began.Before(found.until) {
			delete(c.last, known)
		}
	}
	if found, ok := c.last[subject]; ok {
		return found.scopes, found.err
	}
	within, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	scopes, err := store.Scopes(within, subject)
	if ctx.Err() == nil {
		now := time.Now()
		c.last[subject] = scopeList{scopes, err, now.Add(cacheFactor * now.Sub(began))}
	}
	return scopes, err
}
