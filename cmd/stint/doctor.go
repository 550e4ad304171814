package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// doctorCommand finds out what is wrong.
type doctorCommand struct {
	Store  string `name:"store" placeholder:"URL" help:"Examine a Redis: redis, or a URL such as redis://localhost:6379/0."`
	Config string `name:"config" placeholder:"FILE" help:"Examine policies too, and look in the Redis for keys with their prefix."`
	JSON   bool   `name:"json" help:"Print JSON."`
	serverFlags
}

// Help is the detailed help.
func (*doctorCommand) Help() string {
	return `Each check is ok, a warning or a failure, with what was found and how to fix it. Of a Redis: version, eviction, memory,
latency, scripts, clock, permissions, persistence, replication. Of a server: readiness, configuration, store, alerts.
With --store a server is examined only if it is named. Subjects of its own are charged for it, and forgotten. The exit code is 1 if anything is not ok.

    stint doctor
    stint doctor --store redis --config stint.yaml      # the Redis of $REDIS_URL`
}

// Validate is called when the flags have been read.
func (c *doctorCommand) Validate() error { return checkRedis(c.Store) }

// Results of checks.
const (
	resultOK   = "ok"
	resultWarn = "warn"
	resultFail = "fail"
)

// finding is what came of a check.
type finding struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	// Found is what is the case, and Fix what to do about it.
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"`
}

// findings are those of an examination.
type findings []finding

func (f *findings) ok(name, format string, args ...any) {
	*f = append(*f, finding{name, resultOK, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(name, found, fix string) {
	*f = append(*f, finding{name, resultWarn, found, fix})
}

func (f *findings) fail(name, found, fix string) {
	*f = append(*f, finding{name, resultFail, found, fix})
}

// good reports whether nothing was found.
func (f *findings) good() bool {
	for _, one := range *f {
		if one.Result != resultOK {
			return false
		}
	}
	return true
}

// examinationTime bounds an examination.
const examinationTime = 30 * time.Second

// Run examines.
func (c *doctorCommand) Run(s *system) error {
	ctx, cancel := context.WithTimeout(context.Background(), examinationTime)
	defer cancel()
	var found findings
	var where policy.Store
	if c.Config != "" {
		where = examineConfig(&found, s, c.Config)
	}
	if c.Store != "" {
		where.URL = redisURL(c.Store)
		examineRedis(ctx, &found, where)
	}
	if c.Server != "" || c.Store == "" {
		client, err := c.client()
		if err != nil {
			return err
		}
		c.examineServer(ctx, &found, client, versionOf(s.Build).Version)
	}
	var err error
	if c.JSON {
		err = s.printJSON(struct {
			Checks findings `json:"checks"`
		}{found})
	} else {
		err = s.print(found.text(s))
	}
	if err == nil && !found.good() {
		err = toldError{}
	}
	return err
}

// examineConfig checks policies, and returns where they are kept.
func examineConfig(found *findings, s *system, path string) policy.Store {
	set, err := s.load(path)
	if err != nil {
		first, rest, _ := strings.Cut(err.Error(), "\n")
		if rest != "" {
			first += fmt.Sprintf(" (and %d more)", 1+strings.Count(rest, "\n"))
		}
		found.fail("policies", first, "stint config check "+path)
		return policy.Store{}
	}
	found.ok("policies", "%s: %s", path, summaryOf(set))
	return set.Store()
}

// text is what was found, for people.
func (f findings) text(s *system) []byte {
	var b bytes.Buffer
	width := 0
	for _, one := range f {
		width = max(width, len(one.Name))
	}
	colours := map[string]string{resultOK: blue, resultWarn: yellow, resultFail: red}
	for _, one := range f {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", s.paint(colours[one.Result], fmt.Sprintf("%-4s", one.Result)), width, one.Name, oneLine(one.Found))
		if one.Fix != "" {
			fmt.Fprintf(&b, "%*s  fix: %s\n", 6+width, "", oneLine(one.Fix))
		}
	}
	return b.Bytes()
}
