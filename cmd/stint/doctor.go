package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// doctorCommand finds out what is wrong.
type doctorCommand struct {
	Store     string `name:"store" placeholder:"URL" help:"Examine a Redis: redis, or a URL such as redis://localhost:6379/0."`
	Config    string `name:"config" placeholder:"FILE" help:"Examine policies too, and look in the Redis for keys with their prefix."`
	Server    string `name:"server" placeholder:"URL" env:"STINT_SERVER" help:"Examine a running server by its admin listener. Default: http://127.0.0.1:6070, unless there is --store."`
	Token     string `name:"token" placeholder:"TOKEN" env:"STINT_TOKEN" help:"The bearer token for it."`
	TokenFile string `name:"token-file" placeholder:"FILE" help:"A file with the token."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

// Help is the detailed help.
func (*doctorCommand) Help() string {
	return `Each check is ok, a warning or a failure, with what was found and how to mend it. Of a Redis: version, eviction, memory,
latency, scripts, clock, permissions, persistence, replication. Of a server: readiness, configuration, store, alerts.
Subjects of its own are charged for it, and forgotten. The exit code is 1 if anything is not ok.

    stint doctor
    stint doctor --store redis://limiter:secret@redis.internal:6379/0 --config stint.yaml`
}

// localAdmin is where servers are that nobody names.
const localAdmin = "http://127.0.0.1:6070"

// Validate is called when the flags have been read.
func (c *doctorCommand) Validate() error {
	return (&deskFlags{Store: cmp.Or(c.Store, redisStore), serverFlags: serverFlags{Server: localAdmin}}).Validate()
}

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
	// Found is what is the case, and Mend what to do about it.
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"`
}

// findings are those of an examination.
type findings []finding

func (f *findings) ok(name, format string, args ...any) {
	*f = append(*f, finding{name, resultOK, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(name, found, mend string) {
	*f = append(*f, finding{name, resultWarn, found, mend})
}

func (f *findings) fail(name, found, mend string) {
	*f = append(*f, finding{name, resultFail, found, mend})
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
	prefix := ""
	if c.Config != "" {
		prefix = examineConfig(&found, s, c.Config)
	}
	if c.Store != "" {
		examineRedis(ctx, &found, redisURL(c.Store), prefix)
	}
	if where := c.Server; where != "" || c.Store == "" {
		flags := serverFlags{Server: cmp.Or(where, localAdmin), Token: c.Token, TokenFile: c.TokenFile}
		client, err := flags.client()
		if err != nil {
			return err
		}
		examineServer(ctx, &found, client, versionOf(s.Build).Version)
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

// examineConfig checks policies, and returns the prefix of their keys.
func examineConfig(found *findings, s *system, path string) (prefix string) {
	set, err := s.load(path)
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		found.fail("policies", fmt.Sprintf("%s (%s)", lines[0], count(len(lines), "mistake", "mistakes")), "stint config check "+path)
		return ""
	}
	about := summary{Tiers: len(set.Tiers()), Policies: len(set.Policies()), Outbound: len(set.Outbound())}
	found.ok("policies", "%s: %s", path, &about)
	return set.Store().Prefix
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
		if one.Mend != "" {
			fmt.Fprintf(&b, "%*s  to mend it: %s\n", 6+width, "", oneLine(one.Mend))
		}
	}
	return b.Bytes()
}
