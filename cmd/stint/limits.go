package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

type limitsCommands struct {
	Set    limitsSetCommand    `cmd:"" help:"Give a subject different limits for a time."`
	Unset  limitsUnsetCommand  `cmd:"" help:"Remove the override of a subject for a policy or tier."`
	Show   limitsShowCommand   `cmd:"" help:"Show the overrides of a subject."`
	List   limitsListCommand   `cmd:"" help:"List overrides."`
	Export limitsExportCommand `cmd:"" help:"Print all overrides, a line of JSON for each."`
	Import limitsImportCommand `cmd:"" help:"Create overrides from the output of export."`
}

func (*limitsCommands) Help() string {
	return `An override gives one subject different limits than the configuration, without a deployment. It is kept in the store and applies
within a second on every server that shares it. What the subject has used stays used.`
}

type limitsSetCommand struct {
	subjectFlags
	Limits []stint.Limit `arg:"" sep:"none" name:"limit" help:"The new limits, such as 500/1m, with windows that the policy has. Other limits stay as they are."`
	Policy string        `required:"" name:"policy" placeholder:"NAME" help:"The policy or tier that has the limits."`
	Until  untilFlag     `required:"" name:"until" placeholder:"WHEN" help:"Until when: a day, to its end (friday, tomorrow, 2026-11-20), a time (2026-11-20T18:00), a length (36h, 7d), or never."`
	Why    string        `name:"why" placeholder:"TEXT" help:"The reason, such as a ticket."`
	Lower  bool          `name:"lower" help:"Apply the limits even where they are lower than those of the configuration. By default, the larger limit applies."`
	limitsChange
}

type limitsChange struct {
	Yes  bool `name:"yes" short:"y" help:"Do not ask for confirmation."`
	JSON bool `name:"json" help:"Print JSON."`
	serverFlags
}

func (*limitsSetCommand) Help() string {
	return `The larger of the configured limit and this one applies, even if the configuration changes later, unless --lower is given.
It replaces an earlier override of the same subject and policy. Days and times are local, unless they have a zone.

    stint limits set user:42 --policy api 500/1m --until friday --why TICKET-7
    stint limits set apikey:k1 --policy free 10/1m 100/1d --until 7d --lower`
}

func (c *limitsSetCommand) Run(s *system) error {
	return c.set(s, c.Subject, control.SetRequest{Target: c.target(), Policy: c.Policy, Limits: c.Limits,
		Lower: c.Lower, Until: time.Time(c.Until), Why: c.Why})
}

// set makes an override. subject is the subject as given on the command line.
func (c *limitsChange) set(s *system, subject string, r control.SetRequest) error {
	what := fmt.Sprintf("%s under %s %s", label.List(r.Limits), r.Policy, untilText(r.Until))
	return c.change(s, fmt.Sprintf("Give %s %s?", subject, what), "has "+what, r.Until,
		func(ctx context.Context, client *control.Client) (control.Named, error) {
			return client.SetOverride(ctx, r)
		})
}

// change asks for confirmation, calls do to make the change, and prints the result with
// [system.showChange].
func (c *limitsChange) change(s *system, question, done string, until time.Time,
	do func(context.Context, *control.Client) (control.Named, error)) error {
	return c.call(func(client *control.Client) error {
		if err := s.confirm(c.Yes, question); err != nil {
			return err
		}
		who, err := do(context.Background(), client)
		if err != nil {
			return err
		}
		return s.showChange(c.JSON, who, done, until)
	})
}

type limitsUnsetCommand struct {
	subjectFlags
	Policy string `required:"" name:"policy" placeholder:"NAME" help:"The policy or tier."`
	limitsChange
}

func (*limitsUnsetCommand) Help() string {
	return `The limits of the configuration apply again.

    stint limits unset user:42 --policy api`
}

func (c *limitsUnsetCommand) Run(s *system) error {
	return c.change(s, fmt.Sprintf("Remove the override of %s under %s?", c.Subject, c.Policy),
		"has the configured limits under "+c.Policy, time.Time{},
		func(ctx context.Context, client *control.Client) (control.Named, error) {
			return client.UnsetOverride(ctx, control.UnsetRequest{Target: c.target(), Policy: c.Policy})
		})
}

type limitsShowCommand struct {
	subjectFlags
	JSON bool `name:"json" help:"Print JSON."`
	serverFlags
}

func (*limitsShowCommand) Help() string {
	return `"stint inspect" shows the limits that apply, and what is used of them.

    stint limits show user:42`
}

func (c *limitsShowCommand) Run(s *system) error {
	return c.call(func(client *control.Client) error {
		subject, err := client.Subject(context.Background(), c.target())
		if err != nil {
			return err
		}
		list := control.OverrideList{Overrides: []control.ListedOverride{}, Total: len(subject.Overrides)}
		for _, o := range subject.Overrides {
			o.Subject = subject.Subject
			list.Overrides = append(list.Overrides, control.ListedOverride{Override: o})
		}
		return s.show(c.JSON, list, func() []byte {
			if list.Total == 0 {
				return []byte(oneLine(subject.Subject) + noteText(subject.Note) + " has the configured limits\n")
			}
			return overridesText(&list)
		})
	})
}

type limitsListCommand struct {
	Prefix string `arg:"" optional:"" help:"Only subjects that begin with this, such as user:."`
	Most   int    `name:"most" short:"n" placeholder:"N" default:"100" help:"How many to list. Default: ${default}."`
	JSON   bool   `name:"json" help:"Print JSON."`
	serverFlags
}

func (*limitsListCommand) Help() string {
	return `Overrides are sorted by subject. Subjects are shortened unless the token may operate or the server shows them in full.
With a name key, subjects are hashes; "stint limits show" finds one by its name.

    stint limits list
    stint limits list apikey: --most 1000`
}

func (c *limitsListCommand) Validate() error {
	if c.Most < 1 || c.Most > control.MaxOverrides {
		return fmt.Errorf("--most: %d; want 1 to %d; export prints all", c.Most, control.MaxOverrides)
	}
	return nil
}

func (c *limitsListCommand) Run(s *system) error {
	return c.call(func(client *control.Client) error {
		list, err := client.Overrides(context.Background(), c.Prefix, c.Most)
		if err != nil {
			return err
		}
		return s.show(c.JSON, list, func() []byte { return overridesText(&list) })
	})
}

func overridesText(list *control.OverrideList) []byte {
	if list.Total == 0 {
		return []byte("there are no overrides\n")
	}
	var b bytes.Buffer
	columns(&b, func(line func(...string)) {
		line("SUBJECT", "POLICY", "LIMITS", "UNTIL", "BY", "WHY", "REF")
		for _, o := range list.Overrides {
			limits, until := label.List(o.Limits), "never ends"
			if o.Lower {
				limits += ", or lower"
			}
			if !o.Until.IsZero() {
				until = o.Until.UTC().Format(time.RFC3339)
			}
			line(o.Subject, o.Policy, limits, until, o.By, o.Why, refText(o.Ref))
		}
	})
	if n := list.Total - len(list.Overrides); n > 0 {
		fmt.Fprintf(&b, "%d more; --most shows more, and export prints all\n", n)
	}
	return trimLines(b.Bytes())
}

type limitsExportCommand struct{ serverFlags }

func (*limitsExportCommand) Help() string {
	return `The output contains full subjects, and requires a token that may operate. "stint limits import" and "stint simulate
--overrides" read it.

    stint limits export > overrides.jsonl`
}

func (c *limitsExportCommand) Run(s *system) error {
	return c.call(func(client *control.Client) error {
		return client.ExportOverrides(context.Background(), func(line []byte) error {
			return s.print(append(line, '\n'))
		})
	})
}

type limitsImportCommand struct {
	File string `arg:"" help:"A file with the output of export, or - for standard input."`
	limitsChange
}

func (*limitsImportCommand) Help() string {
	return `Subjects are taken literally. Existing overrides of the same subject and policy are replaced; others stay. All lines are read before
anything is changed; an override with a policy or window that the configuration does not have stops the import.

    stint limits import overrides.jsonl`
}

func (c *limitsImportCommand) Run(s *system) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	all, err := s.readOverrides(c.File)
	if err != nil {
		return err
	}
	if c.File != stdinPath {
		if err := s.confirm(c.Yes, "Import "+count(len(all), "override", "overrides")+"?"); err != nil {
			return err
		}
	}
	for done := 0; done < len(all); done += control.MaxImport {
		part := all[done:min(done+control.MaxImport, len(all))]
		if err := client.ImportOverrides(context.Background(), part); err != nil {
			if done > 0 {
				fmt.Fprintf(s.errors(), "stint: the first %d overrides were imported; number 1 in the error below is the next one\n", done)
			}
			return c.problem(err)
		}
	}
	return s.show(c.JSON, struct {
		Imported int `json:"imported"`
	}{len(all)}, func() []byte {
		return []byte(count(len(all), "override is", "overrides are") + " imported\n")
	})
}

func (s *system) readOverrides(path string) (all []overrides.Override, err error) {
	name, in := path, io.Reader(nil)
	if path == stdinPath {
		name, in = stdinName, s.Stdin
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, unreadable(err)
		}
		defer file.Close() // opened only for reading, so nothing can be lost
		in = file
	}
	err = overrides.Read(in, func(o overrides.Override) error {
		if all = append(all, o); len(all) > overrides.MaxOverrides {
			return fmt.Errorf("more than %d overrides", overrides.MaxOverrides)
		}
		return nil
	})
	if err != nil {
		return nil, &unreadableError{name, err}
	}
	return all, nil
}

// overridesFor reads exported overrides. It returns an error if an override does not match set; see
// [overrides.Override.Check].
func (s *system) overridesFor(set *policy.Set, path string) ([]overrides.Override, error) {
	all, err := s.readOverrides(path)
	for i := range all {
		if err := all[i].Check(set); err != nil {
			return nil, usageMistake(fmt.Errorf("--overrides: number %d, of %s: %w", i+1, label.Short(all[i].Subject),
				err))
		}
	}
	return all, err
}

// overrideText describes an override, to append to a line: when it ends, who made it and why.
func overrideText(o *overrides.Override) string {
	text := untilText(o.Until)
	if o.By != "" {
		text += ", by " + o.By
	}
	if o.Why != "" {
		text += ": " + o.Why
	}
	return strings.TrimPrefix(text, ", ")
}

// untilText describes when an override ends: the local time, the time in UTC if that differs, and
// the time left.
func untilText(until time.Time) string {
	if until.IsZero() {
		return "without an end"
	}
	local := until.Local()
	text := "until " + local.Format("Mon 2006-01-02 15:04:05 MST")
	if _, offset := local.Zone(); offset != 0 {
		text += " (" + until.UTC().Format(time.RFC3339) + ")"
	}
	return text + ", in " + figures.Length(max(time.Until(until), 0).Round(time.Minute))
}
