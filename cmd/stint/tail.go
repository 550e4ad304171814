package main

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/observe"
)

type tailCommand struct {
	Tier    string `name:"tier" placeholder:"NAME" help:"Only violations of this tier."`
	Policy  string `name:"policy" placeholder:"NAME" help:"Only violations of this policy."`
	Reason  string `name:"reason" placeholder:"WHY" values:"limit,ban,unavailable,shadow" help:"Only violations for this reason: limit, ban, unavailable, or shadow for requests that would have been denied."`
	Subject string `name:"subject" placeholder:"TEXT" help:"Only violations whose subject, as shown, contains this."`
	Last    int    `name:"last" short:"n" placeholder:"N" default:"10" help:"How many past violations to show first. Default: ${default}."`
	JSON    bool   `name:"json" help:"Print JSON, one violation per line."`
	serverFlags
}

func (*tailCommand) Help() string {
	return `Prints one line for each request that is denied, or would have been, until it is interrupted. If there are very many, the
server sends some of them and the number of the others. Changes of the configuration are reported on standard error.
It reconnects if the connection is lost.

    stint tail
    stint tail --tier anonymous --reason ban
    stint tail --json | jq -r .policy | sort | uniq -c`
}

func (c *tailCommand) Validate() error {
	if c.Last < 0 || c.Last > 1000 {
		return fmt.Errorf("--last: %d; want 0 to 1000", c.Last)
	}
	reasons := []string{"limit", "ban", "unavailable", "shadow"}
	if c.Reason != "" && !slices.Contains(reasons, c.Reason) {
		return fmt.Errorf("--reason: %q; want limit, ban, unavailable or shadow%s", c.Reason, messages.Hint(c.Reason, reasons))
	}
	return nil
}

func (c *tailCommand) Run(s *system) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var past []observe.Violation // requested after the first tick, so that no violations are missed
	begun, told := c.Last == 0, false
	var changed time.Time // the time of the last configuration change that was printed
	return c.problem(reconnecting(ctx, s, func(worked func()) error {
		return client.Stream(ctx, func(tick *observe.Tick) error {
			worked()
			if n := len(tick.Processes); n > 1 && !told {
				fmt.Fprintf(s.errors(), "stint: showing only the denials of %s, one of %d processes\n",
					oneLine(tick.Processes[0].Name), n)
				told = true
			}
			for i := range tick.Changes {
				if change := &tick.Changes[i]; change.At.After(changed) {
					changed = change.At
					fmt.Fprintf(s.errors(), "stint: %s\n", oneLine(change.String()))
				}
			}
			if !begun {
				if past, err = client.Violations(ctx, c.Last); err != nil {
					return err
				}
				begun = true
				return c.print(s, past) // past includes the violations of this tick
			}
			if contains(past, tick.Violations) {
				return nil
			}
			if err := c.print(s, tick.Violations); err != nil {
				return err
			}
			if tick.Unshown > 0 && !c.JSON {
				return s.print(fmt.Appendf(nil, "… and %d others in this second\n", tick.Unshown))
			}
			return nil
		})
	}))
}

// contains reports whether list has the newest violation of a tick. If it does, the tick's other
// violations are also in the list, or are older than the list.
func contains(list, ofTick []observe.Violation) bool {
	if len(ofTick) == 0 {
		return false
	}
	newest := ofTick[len(ofTick)-1]
	return slices.ContainsFunc(list, func(v observe.Violation) bool {
		same := v.At.Equal(newest.At)
		v.At = newest.At // v.At may have another time zone
		return same && v == newest
	})
}

func (c *tailCommand) print(s *system, list []observe.Violation) error {
	for i := range list {
		v := &list[i]
		if !c.wants(v) {
			continue
		}
		var err error
		if c.JSON {
			err = s.printJSON(v, "")
		} else {
			err = s.print(violationLine(s, v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *tailCommand) wants(v *observe.Violation) bool {
	return (c.Tier == "" || v.Tier == c.Tier) && (c.Policy == "" || v.Policy == c.Policy) &&
		(c.Reason == "" || v.Reason == c.Reason) && strings.Contains(v.Subject, c.Subject)
}

func violationLine(s *system, v *observe.Violation) []byte {
	color := yellow
	if v.Reason == "ban" || v.Reason == "unavailable" {
		color = red
	}
	what := v.Tier
	if v.Policy != "" {
		what += ", " + v.Policy
	}
	if v.Limit != "" {
		what += ": " + v.Limit
	}
	line := fmt.Sprintf("%s  %s  %s  %s", v.At.UTC().Format(time.RFC3339),
		s.paint(color, fmt.Sprintf("%-11s", oneLine(v.Reason))), oneLine(v.Subject), oneLine(what))
	if v.RetryAfter != 0 && v.Reason != "shadow" {
		line += ", retry after " + inSeconds(v.RetryAfter)
	}
	if v.Degraded {
		line += " (without the store)"
	}
	if v.Ref != "" {
		line += "  " + oneLine(refText(v.Ref))
	}
	return []byte(line + "\n")
}
