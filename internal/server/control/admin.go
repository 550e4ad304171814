// Package control inspects and manages subjects for operators: it shows what subjects have used and
// why they are denied, and it resets, bans and unbans them. [Admin] works on a store and the
// policies in force. It is used by the admin listener, and by commands that open a store
// themselves. [Client] does the same work through a server's admin listener.
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

// Config configures an [Admin].
type Config struct {
	// Store counts the usage of subjects. Its contents can be shown only if it is a
	// [driver.Inspector].
	Store stint.Store
	// Set returns the policies in force, or nil if there are none. Set may itself be nil.
	Set func() *policy.Set
	// Envoy returns the limits that Envoy's rate limit service applies to a subject, and the name
	// of their rule. It is nil if the server does not provide that service.
	Envoy func(subject string) (rule string, limits []stint.Limit)
	// Overrides holds limits of individual subjects that replace the policies' limits. It may be
	// nil.
	Overrides *overrides.Table
	// If Limits is not empty, these limits apply to every subject instead of the policies, and are
	// counted in Scope.
	Limits []stint.Limit
	Scope  string
}

// Admin inspects and manages subjects. It is safe for concurrent use.
//
// Its errors are a [*stint.InvalidError] for an invalid call, an [*UnknownError],
// [ErrNotInspectable], [errors.ErrUnsupported] if there is no table of overrides, or an error of
// the store.
type Admin struct {
	c         Config
	inspector driver.Inspector // nil if the store is not an inspector
	scopes    scopeCache
	later     *laterBans // nil unless SendLater was called
}

// New returns an Admin.
func New(c Config) *Admin {
	inspector, _ := c.Store.(driver.Inspector)
	if c.Set == nil {
		c.Set = func() *policy.Set { return nil }
	}
	return &Admin{c: c, inspector: inspector,
		scopes: scopeCache{turn: make(chan struct{}, 1), last: map[string]scopeList{}}}
}

const (
	// MaxLimits is the maximum number of limits shown for a subject.
	MaxLimits = 1000
	// MaxBans is the maximum number of bans in a list.
	MaxBans = 10_000
	// parallel is the maximum number of simultaneous requests to the store in one call.
	parallel = 8
)

// Subject returns the ban, the overrides and the usage of a subject.
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

// inspect reads the counters, and returns their contents by key. If several counters have the same
// key, it reads only one of them.
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
		in, err := d.inspector.Inspect(ctx, stint.Claim{Subject: subject, Scope: p.Scope, Limits: p.limits})
		*seen[p.key()] = in
		return err
	})
	return seen, err
}

// Each calls the function do for every item of list, for several items at the same time. It returns
// the first error in the order of list, or nil if there is none.
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

// Reset clears what a subject has used, under every limit that could apply to it. It does not end a
// ban; see [Admin.Unban]. If a policy counts in parts (see [Limit.Divided]), Reset clears the parts
// that the store can list. If there may be other parts, Reset also returns an error.
//
// Like all methods that act on a subject, Reset returns the subject, even if it fails, unless the
// target is invalid.
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
		i := slices.IndexFunc(commands, func(c stint.Command) bool { return c.Scope == p.Scope })
		if i < 0 {
			i = len(commands)
			commands = append(commands, stint.Command{Kind: stint.CommandReset, Subject: subject, Scope: p.Scope})
		}
		for _, l := range p.limits {
			if !slices.ContainsFunc(commands[i].Limits, func(m stint.Limit) bool { return contract.SameID(&l, &m) }) {
				commands[i].Limits = append(commands[i].Limits, l)
			}
		}
	}
	return Each(commands, func(c stint.Command) error { return d.command(ctx, c) })
}

// Ban bans a subject for the given time, under all limits that apply bans. It returns an error if
// the policies have no such limit for the subject, unless t is raw and the policies do not know the
// subject. It does not shorten a ban that is already in force. If [Admin.SendLater] was called and
// the store fails, Ban keeps the ban to send it later, and the Note of the result says so.
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
	if err := d.checkBansApply(who.Subject); err != nil {
		if _, unknown := errors.AsType[*UnknownError](err); !unknown || !t.Raw {
			return who, err
		}
	}
	until := time.Now().Add(length)
	err = d.command(ctx, stint.Command{Kind: stint.CommandBan, Subject: who.Subject, For: length})
	if d.later.keep(who.Subject, until, err) {
		who.Note = strings.TrimPrefix(who.Note+"; ", "; ") +
			"the store does not answer: this process keeps the ban, and sends it when the store answers again. Until then, the ban applies only in this process"
		return who, nil
	}
	return who, err
}

// Unban ends a subject's ban. It also clears earlier bans and strikes.
func (d *Admin) Unban(ctx context.Context, t Target) (Named, error) {
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	d.later.drop(who.Subject)
	return who, d.command(ctx, stint.Command{Kind: stint.CommandUnban, Subject: who.Subject})
}

// Bans lists at most n bans in force, starting with the ban that lasts longest.
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

func checkSubject(subject string) error {
	switch {
	case subject == "":
		return &stint.InvalidError{Err: errors.New("the subject is empty; want something like user:42")}
	case len(subject) > stint.MaxSubject:
		return invalid("the subject has %d bytes; want at most %d", len(subject), stint.MaxSubject)
	}
	return nil
}
