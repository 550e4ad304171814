package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/denialid"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

type whyCommand struct {
	What string `arg:"" name:"id" placeholder:"ID|SUBJECT" help:"The id of a denial, as in the response and the log, or a subject such as user:42."`
	At   string `name:"at" placeholder:"TIME" help:"With a subject, the approximate time: 14:03, or 2026-11-20T14:03. Default: all remembered denials."`
	JSON bool   `name:"json" help:"Print JSON."`
	serverFlags

	at time.Time // the time that At specifies
}

func (*whyCommand) Help() string {
	return `Shows why a request was denied: by which limit, how much of it was used, in which tier and policy, under which
configuration, and by which process. For a ban it also shows the denials before it. Every 429 has an id: in the header
X-RateLimit-Denial, in the body and in the log ("denial"). A server remembers denials for --keep-denials, a day by default,
and requests those of other processes with the same Redis, which takes a few seconds.

    stint why 691c0f3e8a1b2c3d
    stint why user:42 --at 14:03`
}

func (c *whyCommand) Validate() (err error) {
	c.at, err = parseAt(c.At, time.Now())
	return err
}

// parseAt reads a date and a time, or a time of day. A time of day is today's or, if that is in the
// future, yesterday's. For "", parseAt returns the zero time.
func parseAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, ok := parseTime(text, time.UTC, []string{"15:04", "15:04:05"}); ok {
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	if at, ok := parseTime(text, now.Location(), momentLayouts); ok {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("--at: invalid time %q; want one such as 14:03, 14:03:10 or 2026-11-20T14:03", text)
}

func (c *whyCommand) Run(s *system) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx := context.Background()
	var list []observe.Denial
	id, isID := denialid.Parse(c.What)
	if isID {
		list, err = client.Why(ctx, c.What)
	} else {
		list, err = client.Denials(ctx, c.What, c.at)
	}
	if err != nil {
		return c.problem(err)
	}
	return s.answer(len(list) > 0, c.JSON, struct {
		Denials []observe.Denial `json:"denials"`
	}{list}, func() []byte {
		switch {
		case len(list) > 0:
			return denialsText(list)
		case isID:
			return fmt.Appendf(nil, "no process remembers that denial, of %s; its process has restarted since, "+
				"or it is older than --keep-denials%s\n", moment(id.Time()), silent(ctx, client))
		}
		return fmt.Appendf(nil, "no process remembers a denial of %s%s%s\n", oneLine(c.What), around(c.At),
			silent(ctx, client))
	})
}

// silent returns a note that names the silent processes, which the server did not ask for denials.
// It returns "" if there are none, or if the processes are unknown.
func silent(ctx context.Context, client *control.Client) string {
	all, err := client.Processes(ctx)
	var names []string
	for _, p := range all {
		if p.Silent {
			names = append(names, oneLine(p.Name))
		}
	}
	if err != nil || len(names) == 0 {
		return ""
	}
	return "; silent processes were not asked: " + strings.Join(names, ", ")
}

func around(at string) string {
	if at == "" {
		return ""
	}
	return " around " + at
}

// denialsText describes the last denial in sentences, and each earlier one on one line.
func denialsText(list []observe.Denial) []byte {
	var b bytes.Buffer
	last := &list[len(list)-1]
	fmt.Fprintf(&b, "%s was denied %s, %s: %s\n", oneLine(last.Subject), count(int(last.Count), "time", "times"),
		spanOf(last), reasonOf(last))
	if last.RetryAfter >= 0 {
		fmt.Fprintf(&b, "  retry after  %s at the last denial\n", inSeconds(last.RetryAfter))
	} else {
		fmt.Fprintf(&b, "  retry after  never: waiting does not help\n")
	}
	if last.Route != "" {
		fmt.Fprintf(&b, "  route        %s\n", oneLine(last.Route))
	}
	since := "unchanged since the server started"
	if !last.ConfigSince.IsZero() {
		since = "in force since " + moment(last.ConfigSince)
	}
	fmt.Fprintf(&b, "  policies     %s\n  process      %s\n", since, oneLine(last.Instance))
	if len(list) > 1 {
		b.WriteString("before that:\n")
	}
	for i := range list[:len(list)-1] {
		d := &list[i]
		fmt.Fprintf(&b, "  %s  %s, %s\n", spanOf(d), count(int(d.Count), "time", "times"), reasonOf(d))
	}
	return b.Bytes()
}

func moment(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05") }

func spanOf(d *observe.Denial) string {
	first, last := moment(d.First), d.Last.Local().Format(time.TimeOnly)
	if d.Last.Sub(d.First) < time.Second {
		return first
	}
	return first + " to " + last
}

func reasonOf(d *observe.Denial) string {
	rule := "tier " + oneLine(d.Tier)
	if d.Policy != "" {
		rule = "policy " + oneLine(d.Policy)
	}
	text := ""
	switch {
	case d.Reason == "ban":
		text = "the subject is banned"
	case d.Reason == "unavailable":
		text = "the store is unavailable, and the failure mode denies (" + rule + ")"
	case d.Limit != "":
		text = fmt.Sprintf("%s allows %s, %d used", rule, oneLine(d.Limit), d.Used)
	default:
		text = rule
	}
	if d.Degraded && d.Reason != "unavailable" {
		text += " (without the store)"
	}
	return text
}
