package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/tlsfiles"
)

type doctorCommand struct {
	Store string `name:"store" placeholder:"URL" help:"Check Redis: redis, or a URL such as redis://localhost:6379/0."`
	storeTLSFlags
	Config string `name:"config" placeholder:"FILE" help:"Check policies too, and use their settings for Redis, such as the key prefix."`
	JSON   bool   `name:"json" help:"Print JSON."`
	serverFlags
}

func (*doctorCommand) Help() string {
	return `Each check reports ok, warn or fail, with the details and a fix. For Redis: version, eviction, memory,
latency, scripts, clock, permissions, persistence, replication. For a server: readiness, configuration, store, alerts.
With --store, a server is checked only with --server. The checks charge test subjects and reset them. The exit code is 1 if anything is not ok.

    stint doctor
    stint doctor --store redis --config stint.yaml      # the Redis of $REDIS_URL`
}

func (c *doctorCommand) Validate() error { return checkRedis(c.Store) }

const (
	resultOK   = "ok"
	resultWarn = "warn"
	resultFail = "fail"
)

type finding struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	// Found describes the result, and Fix says how to fix the problem.
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"`
}

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

func (f *findings) good() bool {
	return !slices.ContainsFunc(*f, func(one finding) bool { return one.Result != resultOK })
}

// doctorTime is the maximum total duration of all checks.
const doctorTime = 30 * time.Second

func (c *doctorCommand) Run(s *system) error {
	ctx, cancel := context.WithTimeout(context.Background(), doctorTime)
	defer cancel()
	var found findings
	var where config.Store
	if c.Config != "" {
		where = diagnoseConfig(&found, s, c.Config)
	}
	if c.Store != "" {
		var err error
		if where.URL, err = c.addTo(redisURL(c.Store)); err != nil {
			return usageMistake(err)
		}
		where.URL = tlsfiles.Files{CA: where.CAFile, Cert: where.CertFile, Key: where.KeyFile}.AddTo(where.URL, false)
		diagnoseRedis(ctx, &found, where)
	}
	if c.Server != "" || c.Store == "" {
		client, err := c.client()
		if err != nil {
			return err
		}
		c.diagnoseServer(ctx, &found, client, versionOf(s.Build).Version)
	}
	return s.answer(found.good(), c.JSON, struct {
		Checks findings `json:"checks"`
	}{found}, func() []byte { return found.text(s) })
}

func diagnoseConfig(found *findings, s *system, path string) config.Store {
	conf, err := s.load(path)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		if all, ok := errors.AsType[*config.Error](err); ok && len(all.Mistakes) > 1 {
			first += fmt.Sprintf(" (and %d more)", len(all.Mistakes)-1)
		}
		found.fail("policies", first, "stint config check "+path)
		return config.Store{}
	}
	found.ok("policies", "%s: %s", path, summaryOf(conf))
	return conf.Store
}

func (f findings) text(s *system) []byte {
	var b bytes.Buffer
	width := 0
	for _, one := range f {
		width = max(width, len(one.Name))
	}
	colors := map[string]string{resultOK: blue, resultWarn: yellow, resultFail: red}
	for _, one := range f {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", s.paint(colors[one.Result], fmt.Sprintf("%-4s", one.Result)), width,
			one.Name, oneLine(one.Found))
		if one.Fix != "" {
			fmt.Fprintf(&b, "%*s  fix: %s\n", 6+width, "", oneLine(one.Fix))
		}
	}
	return b.Bytes()
}
