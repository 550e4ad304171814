package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/server/control"
)

type raiseCommand struct {
	subjectFlags
	By     timesFlag `required:"" name:"by" placeholder:"TIMES" help:"The factor by which to multiply the configured limits: 5x, 1.5x."`
	Until  untilFlag `required:"" name:"until" placeholder:"WHEN" help:"Until when: a day, to its end (friday, tomorrow, 2026-11-20), a time (2026-11-20T18:00), a length (36h, 7d), or never."`
	Why    string    `name:"why" placeholder:"TEXT" help:"The reason, such as a ticket."`
	Policy string    `name:"policy" placeholder:"NAME" help:"The policy or tier whose limits are raised. Default: the one whose limits the subject has used most."`
	limitsChange
}

func (*raiseCommand) Help() string {
	return `Raises all limits of one policy or tier for one subject, for a time, on every server that shares the store. It makes
an override, as "stint limits set" does, and replaces an earlier one. "stint limits unset" removes it early.

    stint raise user:42 --by 5x --until tomorrow --why TICKET-7
    stint raise apikey:k1 --by 1.5x --until 2h --policy search`
}

// timesFlag is a factor above 1, such as "5x".
type timesFlag float64

const maxTimes = 1000

// UnmarshalText parses a factor. An x at the end is optional.
func (f *timesFlag) UnmarshalText(text []byte) error {
	times, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || !(times > 1 && times <= maxTimes) {
		return fmt.Errorf("%q; want a number above 1 and up to %d, such as 5x", text, maxTimes)
	}
	*f = timesFlag(times)
	return nil
}

func (c *raiseCommand) Run(s *system) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	subject, err := client.Subject(context.Background(), c.target())
	if err != nil {
		return c.problem(err)
	}
	policy, limits, err := raised(&subject, c.Policy, float64(c.By))
	if err != nil {
		return err
	}
	return c.set(s, c.Subject, control.SetRequest{Target: c.target(), Policy: policy, Limits: limits,
		Until: time.Time(c.Until), Why: c.Why})
}

// raised returns the configured limits of a policy or tier, multiplied by a factor, and the name of
// that policy or tier. If the given name is "", it chooses the policy or tier whose limit has the
// largest share of its capacity used.
func raised(s *control.Subject, name string, times float64) (policy string, limits []stint.Limit, err error) {
	var names []string
	most := 0.0
	for i := range s.Limits {
		l := &s.Limits[i]
		rule := l.Rule()
		if rule == "" {
			continue
		}
		if !slices.Contains(names, rule) {
			names = append(names, rule)
		}
		if used := float64(l.Used) / float64(max(l.Capacity, 1)); used > most {
			most, policy = used, rule
		}
	}
	switch {
	case len(names) == 0:
		return "", nil, fmt.Errorf("no limit of a policy or tier applies to %s", oneLine(s.Subject))
	case name != "" && !slices.Contains(names, name):
		return "", nil, fmt.Errorf("--policy: %q has no limits for subjects like %s; want one of %s%s", name, oneLine(s.Subject),
			strings.Join(names, ", "), messages.Hint(name, names))
	case name != "":
		policy = name
	case len(names) == 1:
		policy = names[0]
	case policy == "":
		return "", nil, fmt.Errorf("%s has used nothing, so it is unclear which limits to raise; want --policy with one of %s",
			oneLine(s.Subject), strings.Join(names, ", "))
	}
	limits, err = multiplied(s, policy, times)
	return policy, limits, err
}

// multiplied returns the configured limits of a policy or tier, multiplied by a factor and without
// duplicates.
func multiplied(s *control.Subject, policy string, times float64) (limits []stint.Limit, err error) {
	for i := range s.Limits {
		l := &s.Limits[i]
		if l.Rule() != policy {
			continue
		}
		text := cmp.Or(l.Configured, l.Limit)
		limit, err := stint.ParseLimit(text)
		if err != nil {
			return nil, err
		}
		if limit.Max == 0 {
			return nil, fmt.Errorf("%s has %s, and 0 times anything is 0; use stint limits set", policy, text)
		}
		before := limit
		limit.Max = int64(math.Ceil(float64(limit.Max) * times))
		switch {
		case before.Burst == 0:
		case before.Burst%before.Max == 0: // the burst stays a multiple of the maximum, as some algorithms require
			limit.Burst = before.Burst / before.Max * limit.Max
		default:
			limit.Burst = int64(math.Ceil(float64(before.Burst) * times))
		}
		if !slices.Contains(limits, limit) {
			limits = append(limits, limit)
		}
	}
	return limits, nil
}
