package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/simulate/report"
	"github.com/stint-limiter/stint/overrides"
)

type simulateCommand struct {
	Logs       []string `arg:"" name:"log" help:"Access logs, compressed with gzip or zstd or not, in any order, or - for standard input."`
	Config     string   `required:"" placeholder:"FILE" help:"The configuration: a file, a directory, or - for standard input."`
	Against    string   `placeholder:"FILE" help:"Another configuration, such as the one in force, to compare with."`
	Overrides  string   `name:"overrides" placeholder:"FILE" help:"Overrides of subjects, as limits export prints them. They apply at all times, even after they have ended."`
	EnforceAll bool     `name:"enforce-all" help:"Enforce limits in shadow, and roll out all limits to all callers."`

	Format string       `name:"format" placeholder:"FORMAT" values:"combined,common,envoy,traefik,caddy,json" help:"combined, common, envoy, traefik, caddy or json. Default: detected, line by line."`
	Map    string       `name:"map" placeholder:"PART=KEY" help:"The keys of JSON lines: time=ts,client=request.ip,header:X-Api-Key=key,claim:plan=user.plan,output_tokens=usage.out."`
	Slack  durationFlag `name:"slack" placeholder:"LENGTH" default:"10s" help:"How far lines may be out of order. Default: ${default}."`
	From   timeFlag     `name:"from" placeholder:"TIME" help:"Leave out requests before this time: 2026-03-02, or 2026-03-02T15:04:05, in UTC unless it has a zone."`
	To     timeFlag     `name:"to" placeholder:"TIME" help:"Leave out requests at this time and later."`

	MaxMalformed shareFlag `name:"max-malformed" placeholder:"SHARE" default:"100%" help:"Exit with status 4 if more than this share of the lines cannot be read, such as 5%. Above 5%, the report begins with a warning. Default: ${default}."`

	Recommend []shareFlag    `name:"recommend" placeholder:"SHARE" help:"Recommend limits that leave this share of subjects unaffected, such as 99.9%."`
	Window    []durationFlag `name:"window" placeholder:"LENGTH" help:"Recommend limits for these windows, in addition to those of the configuration."`
	Burst     []int64        `name:"burst" placeholder:"N" help:"The bursts to recommend limits with for --window, in multiples of the limit. Default: 1, which means no burst."`

	Top         int    `name:"top" short:"n" placeholder:"N" default:"20" help:"The maximum number of subjects in a list. Default: ${default}."`
	MaxSubjects int    `name:"max-subjects" placeholder:"N" default:"1000000" help:"How many subjects to distinguish; others are counted together. Each takes a few hundred bytes. Default: ${default}."`
	JSON        bool   `name:"json" help:"Print JSON."`
	HTML        string `name:"html" placeholder:"FILE" help:"Also write the report as a page, in one self-contained file."`

	format accesslog.Format // the format that Format and Map specify; nil to detect it
}

func (*simulateCommand) Help() string {
	return `What would these limits have done to past traffic? Replays the requests of access logs, in the time of the log and with the code that
serves production: how many would have been denied, whose, by which limit, how much of their limits the others used, which limits are
enough, and the load on Redis.
Lines that cannot be read are counted and shown by example. Simulation changes nothing and needs no store.

    stint simulate --config stint.yaml access.log*
    stint simulate --config new.yaml --against stint.yaml access.log --html report.html
    stint simulate --config stint.yaml --recommend 99%,99.9%,100% --window 1m,1h access.log
    kubectl logs gateway | stint simulate --config stint.yaml --format envoy -`
}

func (c *simulateCommand) Validate() (err error) {
	if err := stdinOnce(append([]string{c.Config, c.Against, c.Overrides}, c.Logs...)); err != nil {
		return err
	}
	switch {
	case len(c.Recommend) == 0 && (len(c.Window) > 0 || len(c.Burst) > 0):
		return errors.New("--window and --burst need --recommend, such as --recommend 99.9%")
	case len(c.Burst) > 0 && len(c.Window) == 0:
		return errors.New("--burst needs --window, such as --window 1m")
	case slices.Contains(c.Recommend, 0):
		return errors.New("--recommend: 0%; want more than 0% and at most 100%")
	case slices.ContainsFunc(c.Burst, func(n int64) bool { return n < 1 || n > stint.MaxBurst }):
		return fmt.Errorf("--burst: %v; want multiples from 1 to %d", c.Burst, stint.MaxBurst)
	case !c.From.IsZero() && !c.To.IsZero() && !c.From.Before(c.To.Time):
		return fmt.Errorf("--from %s is not before --to %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	case c.Top < 1 || c.Top > 10_000:
		return fmt.Errorf("--top: %d; want 1 to 10000", c.Top)
	case c.HTML == stdinPath:
		return errors.New("--html: the page needs a file, because the report is on standard output; want a name such as report.html")
	case c.MaxSubjects < 1:
		return fmt.Errorf("--max-subjects: %d; want 1 or more", c.MaxSubjects)
	}
	c.format, err = c.parseFormat()
	return err
}

// parseFormat returns the format of the logs, or nil to detect it.
func (c *simulateCommand) parseFormat() (accesslog.Format, error) {
	if c.Format == "" && c.Map == "" {
		return nil, nil
	}
	mapping := accesslog.Mapping{}
	if c.Map != "" {
		var err error
		if mapping, err = accesslog.ParseMapping(c.Map); err != nil {
			return nil, fmt.Errorf("--map: %w", withoutPrefix(err))
		}
	}
	format, err := accesslog.NewFormat(c.Format, mapping)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", withoutPrefix(err))
	}
	return format, nil
}

func (c *simulateCommand) Run(s *system) error {
	options, err := c.options(s)
	if err != nil {
		return err
	}
	if err := c.canWrite(); err != nil {
		return err
	}
	logs, err := accesslog.Open(c.Logs,
		accesslog.Options{Format: c.format, Slack: time.Duration(c.Slack), Stdin: s.Stdin})
	if err != nil {
		return withoutPrefix(err)
	}
	defer logs.Close() // opened only for reading, so nothing can be lost
	bar := newProgress(s)
	options.Progress = bar.show
	found, err := simulate.Run(context.Background(), logs, *options)
	bar.clear()
	var invalid *stint.InvalidError
	switch {
	case errors.As(err, &invalid):
		return usageMistake(withoutPrefix(err))
	case err != nil:
		return withoutPrefix(err)
	}
	return c.report(s, found)
}

func (c *simulateCommand) options(s *system) (*simulate.Options, error) {
	o := &simulate.Options{
		EnforceAll: c.EnforceAll, From: c.From.Time, To: c.To.Time, Bursts: c.Burst, Top: c.Top,
		MaxSubjects: c.MaxSubjects,
	}
	for _, share := range c.Recommend {
		o.Recommend = append(o.Recommend, float64(share))
	}
	for _, window := range c.Window {
		o.Windows = append(o.Windows, time.Duration(window))
	}
	conf, err := s.load(c.Config)
	if err != nil {
		return nil, err
	}
	o.Set = conf.Set
	if c.Overrides != "" {
		all, err := s.overridesFor(conf.Set, c.Overrides)
		if err != nil {
			return nil, err
		}
		o.Overrides = overrides.Fixed(all)
	}
	if c.Against != "" {
		against, err := s.load(c.Against)
		if err != nil {
			return nil, err
		}
		o.Against = against.Set
	}
	return o, nil
}

// canWrite checks that the page can be written, so that a long replay does not end with an error.
// It changes nothing.
func (c *simulateCommand) canWrite() error {
	if c.HTML == "" {
		return nil
	}
	file, err := os.OpenFile(c.HTML, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	created := err == nil
	if errors.Is(err, os.ErrExist) {
		file, err = os.OpenFile(c.HTML, os.O_WRONLY, 0)
	}
	if err == nil {
		err = file.Close()
	}
	if created {
		err = errors.Join(err, os.Remove(c.HTML))
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

const wantReadable = "want another --format, or --map to name the keys of JSON lines"

// report prints the result, and writes the page for --html. It returns an error if the share of
// unreadable lines is above --max-malformed, or if no line could be read.
func (c *simulateCommand) report(s *system, found *simulate.Result) error {
	result := report.New(found, report.Names{Config: c.Config, Against: c.Against, Logs: c.Logs})
	if c.HTML != "" {
		page, err := result.HTML()
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.HTML, page, 0o644); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	err := s.show(c.JSON, found, func() []byte {
		return result.Text(report.Terminal{Width: s.columns(), Color: s.Color && s.columns() > 0})
	})
	malformed, lines := found.Log.Malformed, found.Log.Lines
	switch {
	case err != nil || malformed == 0:
		return err
	case float64(malformed) > float64(c.MaxMalformed)*float64(lines):
		return &exitError{Code: exitMalformed, Err: fmt.Errorf(
			"%d of %d lines could not be read, more than --max-malformed %s%%; the report has examples; %s, or a higher --max-malformed",
			malformed, lines, figures.Decimal(100*float64(c.MaxMalformed), 6), wantReadable)}
	case malformed == lines:
		return errors.New("no line could be read; " + wantReadable)
	}
	return nil
}

// shareFlag is a percentage, stored as a fraction: "99.9%" is 0.999.
type shareFlag float64

// UnmarshalText parses a number from 0 to 100, followed by a percent sign.
func (s *shareFlag) UnmarshalText(text []byte) error {
	digits, ok := strings.CutSuffix(string(text), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(percent):
		return fmt.Errorf("invalid share %q; want one such as 99.9%%", text)
	case !ok && percent > 0 && percent <= 1:
		return fmt.Errorf("%q has no percent sign; want %s%%", text, strconv.FormatFloat(100*percent, 'g', 10, 64))
	case !ok:
		return fmt.Errorf("%q has no percent sign; want %s%%", text, digits)
	case percent < 0 || percent > 100:
		return fmt.Errorf("invalid share %q; want 0%% to 100%%", text)
	}
	*s = shareFlag(percent / 100)
	return nil
}
