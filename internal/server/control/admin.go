// Package control acts on subjects for people: it shows what they have used and why they are
// denied, resets them, bans and unbans them. [Admin] works on a store and the policies in force,
// for the admin listener and for commands that open a store themselves. [Client] asks a server's
// admin listener for the same.
package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

// Config sets up an [Admin].
type Config struct {
	// Store is where subjects are counted. What it knows is shown if it is a [driver.Inspector].
	Store stint.Store
	// Set returns the policies in force. It may be nil.
	Set func() *policy.Set
	// Envoy returns the limits of a subject of Envoy's rate limit service and the name of their
	// rule. It is nil without that service.
	Envoy func(subject string) (rule string, limits []stint.Limit)
	// Overrides gives single subjects other limits than the policies; nil gives none.
	Overrides *overrides.Table
	// Limits, if there are any, apply to every subject, in Scope, whatever the policies say.
	Limits []stint.Limit
	Scope  string
}

// Admin acts on subjects. It is safe for concurrent use.
//
// Its errors are a [*stint.InvalidError] for what cannot be done, an [*UnknownError],
// [ErrNotInspectable], and those of the store.
type Admin struct {
	c         Config
	inspector driver.Inspector // nil if the store is not one
	scopes    scopeCache
	later     *laterBans // nil unless SendLater was called
}

// New returns an Admin.
func New(c Config) *Admin {
	inspector, _ := c.Store.(driver.Inspector)
	return &Admin{c: c, inspector: inspector, scopes: newScopeCache()}
}

// Bounds on what an Admin shows.
const (
	// MaxLimits is how many limits of a subject are shown.
	MaxLimits = 1000
	// MaxBans is how many bans are listed.
	MaxBans = 10_000
	// parallel is how many requests of one call the store handles at the same time.
	parallel = 8
)

// Subject shows what is known about a subject.
func (d *Admin) Subject(ctx context.Context, t Target) (Subject, error) {
	if d.inspector == nil {
		return Subject{}, ErrNotInspectable
	}
	who, err := d.find(t)
	if err != nil {
		return Subject{}, err
	}
	counters, err := d.counters(who.Subject)
	if err != nil {
		return Subject{}, err
	}
	counters = mergeTiers(d.inParts(ctx, who.Subject, counters))
	seen, err := d.inspect(ctx, who.Subject, counters)
	if err != nil {
		return Subject{}, err
	}
	result := Subject{Named: who, Limits: []Limit{}, Overrides: d.overridesOf(who.Subject)}
	for i := range counters {
		in := seen[counters[i].key()]
		if in.Now.After(result.Now) {
			result.Now, result.Ban = in.Now, in.Ban
		}
		for k := range in.Windows {
			if len(result.Limits) == MaxLimits {
				result.LeftOut++
				continue
			}
			result.Limits = append(result.Limits, newWindow(&counters[i], &in.Windows[k]))
		}
	}
	return result, nil
}

// inspect reads counters, each once, and returns what they hold by their keys.
func (d *Admin) inspect(ctx context.Context, subject string, counters []counter) (
	map[string]*driver.Inspection, error) {
	seen := map[string]*driver.Inspection{}
	var once []*counter
	for i := range counters {
		if key := counters[i].key(); seen[key] == nil {
			seen[key] = &driver.Inspection{}
			once = append(once, &counters[i])
		}
	}
	err := Each(once, func(p *counter) error {
		in, err := d.inspector.Inspect(ctx, stint.Claim{Subject: subject, Scope: p.scope, Limits: p.limits})
		*seen[p.key()] = in
		return err
	})
	return seen, err
}

// Each calls do for a few items at a time, and returns the first error in the list's order.
func Each[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var work sync.WaitGroup
	free := make(chan struct{}, parallel)
	for i, item := range list {
		free <- struct{}{}
		work.Go(func() {
			errs[i] = do(item)
			<-free
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset clears what a subject has used, under every limit that [Admin.Subject] would show. A ban
// stays; see [Admin.Unban]. Of policies that count in parts, it clears the parts that the store can
// list. If there may be others, it returns an error after clearing the rest.
//
// Like all methods that act on a subject, it returns which one, if known with an error too.
func (d *Admin) Reset(ctx context.Context, t Target) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	counters, err := d.counters(who.Subject)
	if err != nil {
		return who, err
	}
	if err := d.reset(ctx, who.Subject, counters); err != nil {
		return who, err
	}
	if !slices.ContainsFunc(counters, isDivided) {
		return who, nil
	}
	if err := d.resetParts(ctx, who.Subject, counters); err != nil {
		return who, partsLeft(counters, err)
	}
	return who, nil
}

func (d *Admin) reset(ctx context.Context, subject string, counters []counter) error {
	var commands []stint.Command
	for _, p := range counters {
		i := slices.IndexFunc(commands, func(c stint.Command) bool { return c.Scope == p.scope })
		if i < 0 {
			i = len(commands)
			commands = append(commands, stint.Command{Kind: stint.CommandReset, Subject: subject, Scope: p.scope})
		}
		for _, l := range p.limits {
			if !slices.ContainsFunc(commands[i].Limits, func(m stint.Limit) bool { return contract.SameID(&l, &m) }) {
				commands[i].Limits = append(commands[i].Limits, l)
			}
		}
	}
	return Each(commands, func(c stint.Command) error { return d.command(ctx, c) })
}

// Ban bans a subject for a time, wherever bans apply. It is an error if that is nowhere. A ban in
// force that ends later stays as it is. After [Admin.SendLater] one that the store cannot take is
// kept, which the Note says.
func (d *Admin) Ban(ctx context.Context, t Target, length time.Duration) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	if length < stint.MinWindow || length > stint.MaxWindow || length%time.Microsecond != 0 {
		const day = 24 * time.Hour
		return who, invalid("the ban is %v; want whole microseconds from %v to %d days", length, stint.MinWindow,
			stint.MaxWindow/day)
	}
	if err := d.obeysBans(who.Subject); err != nil {
		if _, unknown := errors.AsType[*UnknownError](err); !unknown || !t.Raw {
			return who, err
		}
	}
	until := time.Now().Add(length)
	err = d.command(ctx, stint.Command{Kind: stint.CommandBan, Subject: who.Subject, For: length})
	if d.later.keep(who.Subject, until, err) {
		who.Note = strings.TrimPrefix(who.Note+"; ", "; ") +
			"the store does not answer: the ban is kept here and is sent when it does. Until then it applies only in this process"
		return who, nil
	}
	return who, err
}

// Unban ends a subject's ban, and clears earlier bans and strikes.
func (d *Admin) Unban(ctx context.Context, t Target) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	d.later.drop(who.Subject)
	return who, d.command(ctx, stint.Command{Kind: stint.CommandUnban, Subject: who.Subject})
}

// Bans lists bans in force, the longest to last first, and no more than n of them.
func (d *Admin) Bans(ctx context.Context, n int) ([]Ban, error) {
	if d.inspector == nil {
		return nil, ErrNotInspectable
	}
	if n < 1 || n > MaxBans {
		return nil, invalid("%d bans; want 1 to %d", n, MaxBans)
	}
	list, err := d.inspector.Bans(ctx, n)
	if err != nil {
		return nil, err
	}
	bans := make([]Ban, len(list))
	for i, b := range list {
		bans[i] = Ban{Banned: b}
	}
	return bans, nil
}

func (d *Admin) command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return d.c.Store.Command(ctx, c)
}

func invalid(format string, args ...any) error {
	return &stint.InvalidError{Err: fmt.Errorf(format, args...)}
}

// checkSubject reports a subject that no store takes.
func checkSubject(subject string) error {
	switch {
	case subject == "":
		return &stint.InvalidError{Err: errors.New("the subject is empty; want something like user:42")}
	case len(subject) > stint.MaxSubject:
		return invalid("the subject has %d bytes; want at most %d", len(subject), stint.MaxSubject)
	}
	return nil
}
