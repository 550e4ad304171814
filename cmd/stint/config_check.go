package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/policy"
)

// checkCommand reports the mistakes in configurations.
type checkCommand struct {
	Paths []string `arg:"" name:"path" help:"A file, a directory whose *.yaml and *.yml files are one configuration, or - for standard input."`
	JSON  bool     `name:"json" help:"Print what was found as JSON on standard output."`
}

// Help is the detailed help.
func (*checkCommand) Help() string {
	return `Mistakes are on standard error, one to a line: file:line: key: what is wrong and what would be right. The exit
code is 1 if there are any. Every argument is a configuration of its own.

    stint config check stint.yaml
    stint config check /etc/stint/conf.d staging.yaml --json
    generate | stint config check -`
}

// Validate refuses to read standard input a second time, when nothing is left of it.
func (c *checkCommand) Validate() error {
	n := 0
	for _, path := range c.Paths {
		if path == stdinPath {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("standard input (-) is given %d times; want it once, for it can be read only once", n)
	}
	return nil
}

// checked is what was found about one configuration.
type checked struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Summary is nil if it is not good.
	Summary  *summary  `json:"summary,omitempty"`
	Mistakes []mistake `json:"mistakes,omitempty"`
}

// mistake is one thing that is wrong. Without a line it is about what could not be read.
type mistake struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// summary is how much there is in a configuration.
type summary struct {
	Tiers    int `json:"tiers"`
	Policies int `json:"policies"`
	Outbound int `json:"outbound"`
	Routes   int `json:"gateway_routes"`
}

func summaryOf(set *policy.Set) *summary {
	return &summary{
		Tiers: len(set.Tiers()), Policies: len(set.Policies()), Outbound: len(set.Outbound()), Routes: len(set.Gateway().Routes),
	}
}

// Run checks every configuration before it fails for one.
func (c *checkCommand) Run(s *system) error {
	var all []checked
	var good strings.Builder
	bad := false
	for _, path := range c.Paths {
		set, err := s.load(path)
		found := check(path, set, err)
		all = append(all, found)
		switch {
		case found.Good:
			fmt.Fprintf(&good, "%s: good: %s\n", found.Name, found.Summary)
		case !c.JSON:
			s.tell(err)
		}
		bad = bad || !found.Good
	}
	if err := c.show(s, all, good.String()); err != nil {
		return err
	}
	if bad {
		return toldError{}
	}
	return nil
}

func (c *checkCommand) show(s *system, all []checked, good string) error {
	if c.JSON {
		return s.printJSON(all)
	}
	return s.print([]byte(good))
}

// check turns what came of loading a configuration into what is told about it.
func check(path string, set *policy.Set, err error) checked {
	found := checked{Name: path, Good: err == nil}
	if path == stdinPath {
		found.Name = stdinName
	}
	var config *policy.ConfigError
	var file *unreadableError
	switch {
	case err == nil:
		found.Summary = summaryOf(set)
	case errors.As(err, &config):
		for _, m := range config.Mistakes {
			found.Mistakes = append(found.Mistakes, mistake(m))
		}
	case errors.As(err, &file):
		found.Mistakes = []mistake{{File: file.Name, Message: file.Err.Error()}}
	}
	return found
}

// String returns the summary for a sentence: "5 tiers, 3 policies, 1 outbound API". Of routes it speaks if there are any: most
// configurations are for no gateway.
func (s *summary) String() string {
	text := fmt.Sprintf("%s, %s, %s",
		count(s.Tiers, "tier", "tiers"), count(s.Policies, "policy", "policies"), count(s.Outbound, "outbound API", "outbound APIs"))
	if s.Routes > 0 {
		text += ", " + count(s.Routes, "gateway route", "gateway routes")
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
