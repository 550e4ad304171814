package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/server/control"
)

type takeCommand struct {
	takeFlags
	Wait bool `name:"wait" help:"If the request is denied, wait until there is room and try again."`
}

func (*takeCommand) Help() string {
	return `The limits are those of a tier or a policy, which can be left out if only one can apply to the subject; with --store
also those of --limit. The exit code is 0 if the request is allowed, and 1 if it is denied.

    stint take ip:203.0.113.9
    stint take user:42 --tier free --policy work --cost 10 --wait
    stint take job:nightly --store redis://localhost:6379/0 --limit 10/1h && ./nightly`
}

type takeFlags struct {
	subjectFlags
	Tier   string `name:"tier" placeholder:"NAME" help:"Use the limits of this tier."`
	Policy string `name:"policy" placeholder:"NAME" help:"Use the limits of this policy, for the tier."`
	Scope  string `name:"scope" placeholder:"SCOPE" help:"The scope to count in, such as a route. Default: the scope of requests that match no route."`
	Cost   int64  `name:"cost" placeholder:"N" default:"1" help:"The units to charge to budgets. Default: ${default}."`
	adminFlags
}

func (f *takeFlags) Validate(k *kong.Context) error {
	if f.Cost < 1 {
		return fmt.Errorf("--cost: %d; want 1 or more", f.Cost)
	}
	return f.adminFlags.Validate(k)
}

func (f *takeFlags) ask(peek bool) control.TakeRequest {
	a := control.TakeRequest{Target: f.target(), Tier: f.Tier, Policy: f.Policy, Scope: f.Scope,
		Cost: f.Cost, Peek: peek}
	if len(f.Limit) > 0 {
		// With --limit, [takeFlags.take] passes the scope to [adminFlags.act] instead.
		a.Scope = ""
	}
	return a
}

// minWait is the shortest wait before the next attempt, even if the limits permit it earlier.
const minWait = 10 * time.Millisecond

func (c *takeCommand) Run(s *system) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return c.take(ctx, s, false, c.Wait)
}

// take sends a request and prints the result. If peek is true, nothing is charged. If wait is true,
// it repeats the request until it is allowed, or until waiting cannot help.
func (f *takeFlags) take(ctx context.Context, s *system, peek, wait bool) error {
	return f.act(ctx, s, f.Scope, func(d admin) error {
		for {
			a, err := d.Take(ctx, f.ask(peek))
			if err != nil {
				return err
			}
			if a.Allowed || !wait || a.RetryAfter < 0 {
				return s.answer(a.Allowed, f.JSON, a, func() []byte { return answerText(s, &a, peek) })
			}
			fmt.Fprintf(s.errors(), "stint: denied; trying again in %s\n", inSeconds(a.RetryAfter))
			if pause(ctx, max(time.Duration(a.RetryAfter*float64(time.Second)), minWait)); ctx.Err() != nil {
				return errors.New("interrupted while waiting; nothing was charged")
			}
		}
	})
}

func answerText(s *system, a *control.TakeResult, peek bool) []byte {
	var b bytes.Buffer
	would := ""
	if peek {
		would = "would be "
	}
	verdict := s.paint(red, would+"denied")
	switch {
	case a.Allowed:
		verdict = s.paint(blue, would+"allowed")
	case a.Unavailable:
		verdict += ": the store is unavailable; try again in " + inSeconds(a.RetryAfter)
	case a.Banned:
		verdict += ": banned for another " + inSeconds(a.RetryAfter)
	case a.RetryAfter < 0:
		verdict += ": the cost is above the limit; waiting does not help"
	default:
		verdict += ": there is room in " + inSeconds(a.RetryAfter)
	}
	if a.Degraded && !a.Unavailable {
		verdict += " (the store is unavailable)"
	}
	fmt.Fprintf(&b, "%s  %s%s\n", oneLine(a.Subject), verdict, noteText(a.Note))
	columns(&b, func(line func(...string)) {
		for i := range a.Limits {
			l := &a.Limits[i]
			state := ""
			switch {
			case l.RetryAfter < 0:
				state = "never enough room"
			case l.RetryAfter > 0:
				state = "room in " + inSeconds(l.RetryAfter)
			}
			line("  "+owner(l), l.Limit, fmt.Sprintf("%d of %d used", l.Used, l.Capacity),
				fmt.Sprintf("%d left", l.Remaining), state)
		}
	})
	return trimLines(b.Bytes())
}

// owner names the tier and policy of a limit, and its scope.
func owner(l *control.Limit) string {
	text := "limit"
	switch {
	case l.Policy != "" && l.Tier != "":
		text = l.Tier + ", " + l.Policy
	case l.Policy != "" || l.Tier != "":
		text = l.Tier + l.Policy
	}
	if l.Scope != "" && l.Scope != l.Policy {
		text += " in " + l.Scope
	}
	return text
}

func trimLines(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimRight(lines[i], " ")
	}
	return bytes.Join(lines, []byte("\n"))
}

type peekCommand struct{ takeFlags }

func (*peekCommand) Help() string {
	return `Like take, but nothing is charged. The exit code is 0 if the request would be allowed, and 1 if it would be denied.

    stint peek user:42 --tier pro
    stint peek ip:203.0.113.9 --json`
}

func (c *peekCommand) Run(s *system) error {
	return c.take(context.Background(), s, true, false)
}
