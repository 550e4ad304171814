package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

type topCommand struct {
	By   []string `name:"by" placeholder:"KIND" enum:"ip,user,apikey,session,internal,envoy,other,policy" default:"ip,user,apikey,session,internal,envoy,other" help:"What to show: subjects that begin with ip, user, apikey, session, internal or envoy, other subjects, or policies. Default: all subjects."`
	Most int      `name:"most" short:"n" placeholder:"N" default:"20" help:"How many to show. Default: ${default}."`
	Once bool     `name:"once" help:"Print the current state once."`
	JSON bool     `name:"json" help:"Print JSON: once, or one line per second."`
	serverFlags
}

func (*topCommand) Help() string {
	return `Shows the subjects with the most denials in the last few minutes, and the server's rate, every second until it is interrupted.
Subjects are shortened unless the token may operate or the server shows them in full; other commands accept a ref instead of a subject. Counts are upper bounds: subjects with few denials may share a count.

    stint top
    stint top --by ip --once --json`
}

func (c *topCommand) Validate() error {
	if c.Most < 1 || c.Most > 1000 {
		return fmt.Errorf("--most: %d; want 1 to 1000", c.Most)
	}
	return nil
}

type topState struct {
	Point *observe.Point     `json:"point,omitempty"`
	Top   []observe.Offender `json:"top"`
	// Processes lists the processes that Point and Top cover. It is empty if they cover only one.
	Processes []observe.Process `json:"processes,omitempty"`

	alerts []observe.Alert
	store  observe.StoreHealth
}

func (c *topCommand) Run(s *system) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return c.call(func(client *control.Client) error {
		if !c.Once {
			return c.follow(ctx, s, client)
		}
		top, err := c.offenders(ctx, client)
		if err != nil {
			return err
		}
		all, err := client.Processes(ctx)
		if err != nil {
			return err
		}
		return s.show(c.JSON, topState{Top: top, Processes: all}, func() []byte {
			return append(processLines(all), c.table(top)...)
		})
	})
}

func (c *topCommand) follow(ctx context.Context, s *system, client *control.Client) error {
	var last topState
	display := display{system: s}
	return reconnecting(ctx, s, func(worked func()) error {
		return client.Stream(ctx, func(tick *observe.Tick) error {
			worked()
			last.Point, last.store, last.Processes = &tick.Point, tick.Store, tick.Processes
			if tick.Alerts != nil {
				last.alerts = tick.Alerts
			}
			var err error
			if last.Top, err = c.offenders(ctx, client); err != nil {
				return err
			}
			if c.JSON {
				return s.printJSON(last, "")
			}
			return display.draw(append(c.head(s, &last), c.table(last.Top)...))
		})
	})
}

// offenders queries the offenders of each kind in c.By, and returns at most c.Most of them: those
// with the most denials.
func (c *topCommand) offenders(ctx context.Context, client *control.Client) ([]observe.Offender, error) {
	all := []observe.Offender{}
	for _, kind := range c.By {
		some, err := client.Top(ctx, kind, c.Most)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b observe.Offender) int { return cmp.Compare(b.Denied, a.Denied) })
	return all[:min(len(all), c.Most)], nil
}

func (c *topCommand) head(s *system, now *topState) []byte {
	p := now.Point
	total := p.Allowed + p.Denied + p.Failed
	share := 0.0
	if total > 0 {
		share = 100 * float64(p.Denied) / float64(total)
	}
	parts := []string{fmt.Sprintf("%d decisions/s",
		total), fmt.Sprintf("%d denied (%.1f%%)", p.Denied, share), fmt.Sprintf("p99 %.2f ms", 1000*p.P99)}
	if p.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.Failed))
	}
	if p.Degraded > 0 {
		parts = append(parts, fmt.Sprintf("%d without the store", p.Degraded))
	}
	if outage := now.store.Outage; outage != nil {
		parts = append(parts, s.paint(red, "the store "+oneLine(outage.Is)))
	}
	for _, a := range now.alerts {
		if a.State == "firing" {
			parts = append(parts, s.paint(red, oneLine(a.Name)))
		}
	}
	head := []byte(strings.Join(parts, "  ") + "\n\n")
	return append(head, processLines(now.Processes)...)
}

// processLines returns a line for each process. It returns nothing if there is only one.
func processLines(all []observe.Process) []byte {
	if len(all) < 2 {
		return nil
	}
	b := bytes.NewBufferString(fmt.Sprintf("all %d processes:\n", len(all)))
	columns(b, func(line func(...string)) {
		for _, p := range all {
			state := fmt.Sprintf("%.0f decisions/s, %.0f denied", p.Decisions, p.Denied)
			if p.Degraded > 0 {
				state += fmt.Sprintf(", %.0f without the store", p.Degraded)
			}
			if p.Silent {
				state = "silent since " + p.Heard.UTC().Format(time.RFC3339)
			}
			line("  "+oneLine(p.Name), state+strings.Join(append([]string{""}, p.Alerts...), "  "))
		}
	})
	return append(trimLines(b.Bytes()), '\n')
}

func (c *topCommand) table(top []observe.Offender) []byte {
	if len(top) == 0 {
		return []byte("no denials in the last few minutes\n")
	}
	var b bytes.Buffer
	columns(&b, func(line func(...string)) {
		line("DENIED", "SUBJECT", "LAST BY", "REF")
		for _, o := range top {
			line(fmt.Sprint(o.Denied), o.Subject, o.Policy, refText(o.Ref))
		}
	})
	return trimLines(b.Bytes())
}

// refText returns a ref in the form that commands accept instead of a subject.
func refText(ref string) string {
	if ref == "" {
		return ""
	}
	return control.RefPrefix + ref
}
