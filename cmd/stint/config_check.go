package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/setinfo"
)

type checkCommand struct {
	Paths  []string `arg:"" name:"path" help:"A file, a directory whose *.yaml and *.yml files are one configuration, or - for standard input."`
	Strict bool     `name:"strict" help:"Fail if there are warnings."`
	Envoy  bool     `name:"envoy" help:"Check rules for Envoy's rate limit service instead of policies, in the format of envoyproxy/ratelimit and serve --envoy-config."`
	Merge  bool     `name:"envoy-merge-domains" help:"With --envoy, let several files configure one domain, as for serve."`
	JSON   bool     `name:"json" help:"Print the result as JSON on standard output."`
}

func (*checkCommand) Help() string {
	return `Mistakes go to standard error, one per line: file:line: key: what is wrong and how to fix it. The exit
code is 1 if there are any. Warnings point out settings that are valid but probably not intended; with --strict they are
mistakes. For a valid configuration it prints how much the limits of each tier allow one caller in
total. Every argument is a separate configuration.

    stint config check stint.yaml
    stint config check --strict stint.yaml
    stint config check /etc/stint/conf.d staging.yaml --json
    stint config check --envoy /etc/ratelimit
    generate | stint config check -`
}

func (c *checkCommand) Validate() error {
	if c.Merge && !c.Envoy {
		return errors.New("--envoy-merge-domains needs --envoy")
	}
	return stdinOnce(c.Paths)
}

type checked struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Summary and Totals are nil if the configuration is invalid. With --envoy, they are always nil,
	// and the field Envoy summarizes valid rules.
	Summary *summary      `json:"summary,omitempty"`
	Totals  []tierTotal   `json:"totals,omitempty"`
	Envoy   *envoySummary `json:"envoy,omitempty"`
	// Mistakes includes warnings. A mistake has no line number if a file could not be read.
	Mistakes []config.Mistake `json:"mistakes,omitempty"`
}

type summary struct {
	Tiers    int `json:"tiers"`
	Policies int `json:"policies"`
	Outbound int `json:"outbound"`
	Routes   int `json:"gateway_routes"`
}

func summaryOf(c *config.Config) *summary {
	return &summary{
		Tiers: len(setinfo.Tiers(c.Set)), Policies: len(setinfo.Policies(c.Set)), Outbound: len(c.Outbound),
		Routes: len(c.Gateway.Routes),
	}
}

type envoySummary struct {
	Domains int `json:"domains"`
	Limits  int `json:"limits"`
}

// Run checks every configuration, even if an earlier one has mistakes.
func (c *checkCommand) Run(s *system) error {
	var all []checked
	var good strings.Builder
	bad := false
	for _, path := range c.Paths {
		found, err := c.check(s, path)
		if err == nil && len(found.Mistakes) > 0 {
			found.Good = !c.Strict
			err = &config.Error{Mistakes: found.Mistakes}
		}
		all = append(all, found)
		if err != nil && !c.JSON {
			s.writeError(err)
			if found.Summary != nil && !found.Good {
				fmt.Fprintf(s.errors(), "%s: %s\n", found.Name,
					count(len(found.Mistakes), "warning; --strict treats it as a mistake", "warnings; --strict treats them as mistakes"))
			}
		}
		switch {
		case !found.Good:
		case found.Envoy != nil:
			fmt.Fprintf(&good, "%s: good: %s\n", found.Name, found.Envoy)
		default:
			fmt.Fprintf(&good, "%s: good: %s\n", found.Name, found.Summary)
			for _, t := range found.Totals {
				fmt.Fprintf(&good, "  tier %s: %s\n", t.Tier, t.Total)
			}
		}
		bad = bad || !found.Good
	}
	return s.answer(!bad, c.JSON, all, func() []byte { return []byte(good.String()) })
}

// check returns the result for the configuration at path, and the error from loading it.
func (c *checkCommand) check(s *system, path string) (checked, error) {
	found := checked{Name: path}
	if path == stdinPath {
		found.Name = stdinName
	}
	var read *config.Config
	var err error
	if c.Envoy {
		found.Envoy, err = s.loadEnvoy(path, c.Merge)
	} else if read, err = s.load(path); err == nil {
		found.Summary, found.Totals, found.Mistakes = summaryOf(read), totalsOf(read), read.Warnings
	}
	found.Good = err == nil
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		found.Mistakes = wrong.Mistakes
	} else if file, ok := errors.AsType[*unreadableError](err); ok {
		found.Mistakes = []config.Mistake{{File: file.Name, Message: file.Err.Error()}}
	}
	return found, err
}

// String returns the summary as part of a sentence: "5 tiers, 3 policies, 1 outbound API". It
// mentions routes only if there are any, because most configurations are not for a gateway.
func (s *summary) String() string {
	text := fmt.Sprintf("%s, %s, %s",
		count(s.Tiers, "tier", "tiers"), count(s.Policies, "policy", "policies"),
		count(s.Outbound, "outbound API", "outbound APIs"))
	if s.Routes > 0 {
		text += ", " + count(s.Routes, "gateway route", "gateway routes")
	}
	return text
}

func (s *envoySummary) String() string {
	return fmt.Sprintf("%s, %s", count(s.Domains, "domain", "domains"), count(s.Limits, "limit", "limits"))
}

// loadEnvoy reads rules for Envoy's rate limit service. It returns errors of the same types as
// [system.load].
func (s *system) loadEnvoy(path string, mergeDomains bool) (*envoySummary, error) {
	var rules *envoyrls.Config
	var err error
	if path == stdinPath {
		var text []byte
		if text, err = s.readStdin(); err == nil {
			rules, err = envoyrls.Parse(stdinName, text)
		}
	} else {
		rules, err = envoyrls.Load(path, mergeDomains)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	domains, limits := rules.Size()
	return &envoySummary{domains, limits}, nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
