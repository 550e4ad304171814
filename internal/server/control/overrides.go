package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

const (
	// MaxOverrides is the maximum number of overrides in a list.
	MaxOverrides = 10_000
	// MaxImport is the maximum number of overrides imported in one call.
	MaxImport = 1000
)

var errNoOverrides = fmt.Errorf("overrides are not in use here: %w", errors.ErrUnsupported)

// OverrideList is a list of overrides, sorted by subject and policy. Total is the number of all
// matching overrides, including those that are not in the list.
type OverrideList struct {
	Overrides []ListedOverride `json:"overrides"`
	Total     int              `json:"total"`
}

// ListedOverride is an override in a list.
type ListedOverride struct {
	overrides.Override
	// Ref can be used instead of the subject if the server shows only a shortened form of the
	// subject.
	Ref string `json:"ref,omitempty"`
}

// Overrides lists the first n overrides whose subjects begin with prefix. If the store keeps no
// names, the subjects in the list are hashes.
func (d *Admin) Overrides(_ context.Context, prefix string, n int) (OverrideList, error) {
	list := OverrideList{Overrides: []ListedOverride{}}
	if d.c.Overrides == nil {
		return list, errNoOverrides
	}
	if n < 1 || n > MaxOverrides {
		return list, invalid("%d overrides; want 1 to %d", n, MaxOverrides)
	}
	first, total := d.c.Overrides.List(prefix, n)
	list.Total = total
	for _, o := range first {
		list.Overrides = append(list.Overrides, ListedOverride{Override: o})
	}
	return list, nil
}

// AllOverrides returns every override.
func (d *Admin) AllOverrides() ([]overrides.Override, error) {
	if d.c.Overrides == nil {
		return nil, errNoOverrides
	}
	return d.c.Overrides.All(), nil
}

// SetOverride sets the override o for the subject of t, and ignores the subject in o. An override
// that changes nothing is an error, unless t is raw and the policies do not know the subject.
func (d *Admin) SetOverride(ctx context.Context, t Target, o overrides.Override) (Named, error) {
	if d.c.Overrides == nil {
		return Named{}, errNoOverrides
	}
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	o.Subject = who.Subject
	if err := o.Validate(); err != nil {
		return who, err
	}
	if !o.Until.IsZero() && !o.Until.After(time.Now()) {
		return who, invalid("the override ends at %s, which is in the past", o.Until.Format(time.RFC3339))
	}
	if err := d.checkOverride(&o, t.Raw); err != nil {
		return who, err
	}
	return who, d.c.Overrides.Set(ctx, o)
}

// checkOverride returns an error if, according to the policies, the override o would change
// nothing. If raw is true and the policies do not know the subject, checkOverride checks only the
// policy and the windows of o.
func (d *Admin) checkOverride(o *overrides.Override, raw bool) error {
	if set := d.c.Set(); set == nil {
		return invalid("there are no policies to override")
	} else if err := o.Check(set); err != nil {
		return err
	}
	counters, err := d.counters(o.Subject)
	if _, unknown := errors.AsType[*UnknownError](err); unknown && raw {
		return nil
	}
	if err != nil {
		return err
	}
	var names, texts []string
	changes := o.Lower
	for i := range counters {
		p := &counters[i]
		name := p.Rule.Name()
		if name != "" {
			names = appendNew(names, name)
		}
		if name != o.Policy {
			continue
		}
		changes = changes || p.Rule.Claimed != nil || !slices.Equal(o.Apply(p.Rule.Limits), p.Rule.Limits)
		for _, l := range p.Rule.Limits {
			texts = appendNew(texts, l.String())
		}
	}
	switch {
	case texts == nil:
		return invalid("%q limits no subjects like %s; want one of %s%s", o.Policy, quoteSubject(o.Subject),
			strings.Join(names, ", "), messages.Hint(o.Policy, names))
	case !changes:
		return invalid("%s has %s, and the larger limit applies; want more, or allow a lower limit (--lower)", o.Policy,
			strings.Join(texts, ", "))
	}
	return nil
}

// UnsetOverride removes the override of a target under a policy. It returns an error if there is no
// such override.
func (d *Admin) UnsetOverride(ctx context.Context, t Target, policy string) (Named, error) {
	if d.c.Overrides == nil {
		return Named{}, errNoOverrides
	}
	who, err := d.find(t)
	if err != nil {
		return Named{}, err
	}
	was, err := d.c.Overrides.Unset(ctx, who.Subject, policy)
	if err == nil && !was {
		var names []string
		for _, o := range d.overridesOf(who.Subject) {
			names = append(names, o.Policy)
		}
		if names == nil {
			return who, invalid("%s has no override; it has the configured limits", quoteSubject(who.Subject))
		}
		return who, invalid("%s has no override under %q; it has one under %s", quoteSubject(who.Subject), shown(policy),
			strings.Join(names, ", "))
	}
	return who, err
}

// ImportOverrides sets exported overrides. If any of them is invalid, it sets none of them.
// Subjects are taken literally. If there is a configuration, it must contain the policies and the
// windows of all overrides.
func (d *Admin) ImportOverrides(ctx context.Context, all []overrides.Override) error {
	if d.c.Overrides == nil {
		return errNoOverrides
	}
	if len(all) == 0 || len(all) > MaxImport {
		return invalid("%d overrides; want 1 to %d at a time", len(all), MaxImport)
	}
	for i := range all {
		o := &all[i]
		err := o.Validate()
		if set := d.c.Set(); err == nil && set != nil {
			err = o.Check(set)
		}
		if err != nil {
			return invalid("override %d, of %s: %w", i+1, quoteSubject(o.Subject), contract.Mistakes(err))
		}
	}
	return d.c.Overrides.SetAll(ctx, all)
}

func (d *Admin) overridesOf(subject string) []overrides.Override {
	if d.c.Overrides == nil {
		return nil
	}
	return d.c.Overrides.Of(subject)
}

// effective returns the limits of r, changed by the override for r in own, if there is one.
func effective(own []overrides.Override, r *policy.Rule) []stint.Limit {
	for i := range own {
		if own[i].Policy == r.Name() {
			return own[i].Apply(r.Limits)
		}
	}
	return r.Limits
}
