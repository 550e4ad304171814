// Package control is what people do to subjects by hand: see what they have used and why they are denied, give it back,
// ban and unban them. [Desk] does it over a store and the policies in force, for the admin listener and for a command line
// that has a store of its own, and [Client] asks a server's admin listener for the same.
package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// Config sets up a [Desk].
type Config struct {
	Store stint.Store
	// Inspector shows what the store knows; nil if it cannot.
	Inspector stint.Inspector
	// Set returns the policies in force, and Envoy the rules of Envoy's service. Either may be nil.
	Set   func() *policy.Set
	Envoy func() *envoyrls.Config
	// EnvoyWindow is how Envoy's service counts.
	EnvoyWindow envoyrls.Window
	// Limits, if there are any, are what every subject is held to, in Scope, whatever the policies say.
	Limits []stint.Limit
	Scope  string
}

// Desk acts on subjects. It is safe for concurrent use.
//
// Its errors are a [*stint.InvalidError] for what cannot be done, an [*UnknownError], [ErrBlind], and those of the store.
type Desk struct {
	c     Config
	finds finds
}

// New returns a desk.
func New(c Config) *Desk { return &Desk{c: c, finds: newFinds()} }

// Bounds on what a desk shows.
const (
	// MaxLimits is how many limits of a subject are shown.
	MaxLimits = 1000
	// MaxBans is how many bans are listed.
	MaxBans = 10_000
	// parallel is how many questions of one call are with the store at the same time.
	parallel = 8
)

// Subject shows what is known of a subject.
func (d *Desk) Subject(ctx context.Context, t Target) (Subject, error) {
	if d.c.Inspector == nil {
		return Subject{}, ErrBlind
	}
	who, err := d.find(t)
	if err != nil {
		return Subject{}, err
	}
	places, err := d.places(who.Subject)
	if err != nil {
		return Subject{}, err
	}
	places = untiered(d.inParts(ctx, who.Subject, places))
	seen, err := d.inspect(ctx, who.Subject, places)
	if err != nil {
		return Subject{}, err
	}
	told := Subject{Subject: who.Subject, Note: who.Note, Limits: []Limit{}}
	for i := range places {
		in := seen[places[i].key()]
		if in.Now.After(told.Now) {
			told.Now, told.Ban = in.Now, BanState(in.Ban)
		}
		for k := range in.Windows {
			if len(told.Limits) == MaxLimits {
				told.LeftOut++
				continue
			}
			told.Limits = append(told.Limits, windowOf(&places[i], &in.Windows[k]))
		}
	}
	return told, nil
}

// inspect looks at places, each once, and returns what is in them by their keys.
func (d *Desk) inspect(ctx context.Context, subject string, places []place) (map[string]*stint.Inspection, error) {
	seen := map[string]*stint.Inspection{}
	var once []*place
	for i := range places {
		if key := places[i].key(); seen[key] == nil {
			seen[key] = &stint.Inspection{}
			once = append(once, &places[i])
		}
	}
	err := each(once, func(p *place) error {
		in, err := d.c.Inspector.Inspect(ctx, stint.Claim{Subject: subject, Scope: p.scope, Limits: p.limits})
		*seen[p.key()] = in
		return err
	})
	return seen, err
}

// each does something with a few of the list at a time, and returns the first error in its order.
func each[T any](list []T, do func(T) error) error {
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

// Reset forgets what a subject has used, under every limit that [Desk.Subject] would show. A ban stays; see [Desk.Unban].
// Of policies that count in parts, those are forgotten that the store can tell; if there may be others, an error says so
// once all the rest is forgotten.
//
// Like all that acts on a subject, it returns which one that was, with an error too if that is known.
func (d *Desk) Reset(ctx context.Context, t Target) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	places, err := d.places(who.Subject)
	if err != nil {
		return who, err
	}
	if err := d.reset(ctx, who.Subject, places); err != nil {
		return who, err
	}
	if !slices.ContainsFunc(places, isDivided) {
		return who, nil
	}
	if err := d.resetParts(ctx, who.Subject, places); err != nil {
		return who, left(places, err)
	}
	return who, nil
}

// reset forgets what a subject has used in places.
func (d *Desk) reset(ctx context.Context, subject string, places []place) error {
	var commands []stint.Command
	for _, p := range places {
		i := slices.IndexFunc(commands, func(c stint.Command) bool { return c.Scope == p.scope })
		if i < 0 {
			i = len(commands)
			commands = append(commands, stint.Command{Kind: stint.Reset, Subject: subject, Scope: p.scope})
		}
		for _, l := range p.limits {
			if !slices.ContainsFunc(commands[i].Limits, func(m stint.Limit) bool { return l.SameID(&m) }) {
				commands[i].Limits = append(commands[i].Limits, l)
			}
		}
	}
	return each(commands, func(c stint.Command) error { return d.command(ctx, c) })
}

// Ban denies a subject everything for a time, wherever bans are obeyed, and is an error if that is nowhere. A ban in force
// that ends later stays as it is.
func (d *Desk) Ban(ctx context.Context, t Target, length time.Duration) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	if length < stint.MinWindow || length > stint.MaxBan || length%time.Microsecond != 0 {
		const day = 24 * time.Hour
		return who, invalid("the ban is %v; want whole microseconds from %v to %d days", length, stint.MinWindow, stint.MaxBan/day)
	}
	if err := d.obeysBans(who.Subject); err != nil {
		if _, unknown := errors.AsType[*UnknownError](err); !unknown || !t.Raw {
			return who, err
		}
	}
	return who, d.command(ctx, stint.Command{Kind: stint.Ban, Subject: who.Subject, For: length})
}

// Unban ends a subject's ban, and forgets earlier ones and the denials that led to them.
func (d *Desk) Unban(ctx context.Context, t Target) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	return who, d.command(ctx, stint.Command{Kind: stint.Unban, Subject: who.Subject})
}

// Bans lists bans in force, the longest to last first, and no more than n of them.
func (d *Desk) Bans(ctx context.Context, n int) ([]Ban, error) {
	if d.c.Inspector == nil {
		return nil, ErrBlind
	}
	if n < 1 || n > MaxBans {
		return nil, invalid("%d bans; want 1 to %d", n, MaxBans)
	}
	list, err := d.c.Inspector.Bans(ctx, n)
	if err != nil {
		return nil, err
	}
	bans := make([]Ban, len(list))
	for i, b := range list {
		bans[i] = Ban{Subject: b.Subject, Until: b.Until, Level: b.Level, Strikes: b.Strikes}
	}
	return bans, nil
}

func (d *Desk) command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return d.c.Store.Command(ctx, c)
}

// invalid is a mistake of the caller's.
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
