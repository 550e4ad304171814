// Command load implements `make load`: k6 sends requests of a thousand users of all tiers through
// `stint gateway` with a Redis server, and then every answer is checked offline from the log that
// k6 wrote. It fails if a denial is not justified, a limit was exceeded, a request failed, or the
// share of denials is not as expected. By default, the time budget is long enough for Redis to make
// every decision. With -defaults, stint has its default settings: on a busy machine, it then makes
// some decisions without Redis. The same checks apply to these.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
	"github.com/stint-limiter/stint/examples/tiers"
)

// settings holds the values of the flags.
type settings struct {
	stint, k6, script string
	users             int
	duration          time.Duration
	defaults          bool
}

// name returns the name of the markers around the result in a document.
func (s settings) name() string {
	if s.defaults {
		return "load-defaults"
	}
	return "load"
}

func main() {
	contest.Main("load", func(ctx context.Context, args []string) error {
		return contest.Catch(func() { run(ctx, args) })
	})
}

func run(ctx context.Context, args []string) {
	var s settings
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&s.stint, "stint", "stint", "the `program` to test")
	flags.StringVar(&s.k6, "k6", "k6", "the k6 `program`")
	flags.StringVar(&s.script, "script", "load.js", "k6's `script`")
	flags.IntVar(&s.users, "users", 1000, "virtual `users`, in the same proportions")
	flags.DurationVar(&s.duration, "duration", time.Minute, "`time` over which the users spread their requests, at most 1m")
	flags.BoolVar(&s.defaults, "defaults", false, "use the default failure mode and time budget")
	checked := flags.String("check", "", "only check the `file` that k6 wrote")
	keep := flags.String("log", "", "keep the log of requests in `file`")
	out := flags.String("o", "", "write the result into `file`, between its load or load-defaults markers")
	contest.OK(flags.Parse(args))
	if s.users < 1 || s.duration < time.Second || s.duration > time.Minute {
		contest.Failf("want at least 1 user and a duration from 1s to 1m; in a longer time, fewer requests would exceed the limits")
	}
	log := *checked
	if log == "" {
		rack := process.NewRack()
		defer rack.Stop()
		if log = *keep; log == "" {
			log = rack.Write("requests.csv", "")
		}
		s.send(ctx, rack, log)
	}
	file := contest.Must(os.Open(log))
	defer file.Close()
	r := contest.Must(summarize(contest.Must(readLog(file))))
	fmt.Print(r.text())
	if *out != "" {
		contest.OK(contest.Replace(*out, s.name(), r.text()))
	}
	contest.OK(r.failure())
}

// failurePolicy makes Redis decide every request, even if this machine is busy.
const failurePolicy = "failure: {mode: error, budget: 1s}\n"

// send makes k6 send the requests and write its log.
func (s settings) send(ctx context.Context, rack *process.Rack, log string) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer upstream.Close()
	config := rack.Write("policies/stint.yaml", string(tiers.YAML))
	if !s.defaults {
		rack.Write("policies/failure.yaml", failurePolicy)
	}
	redis := rack.Redis(ctx)
	address := process.FreeAddress()
	rack.Start(ctx, address, nil, s.stint, "gateway", "--config", filepath.Dir(config), "--store",
		"redis://"+redis.Address,
		"--upstream", upstream.URL, "--listen", address, "--admin", "", "--drain", "0s")
	k6 := exec.CommandContext(ctx, s.k6, "run", "--quiet", "--no-usage-report", "--summary-mode=disabled",
		"--out", "csv="+log,
		"-e", "TARGET=http://"+address, "-e", fmt.Sprint("VUS=", s.users), "-e",
		fmt.Sprint("SECONDS=", s.duration.Seconds()), s.script)
	// By default, k6 writes its data once per second, and requests that it makes meanwhile wait for
	// the write.
	k6.Env = append(os.Environ(), "K6_CSV_TIME_FORMAT=unix_micro", "K6_CSV_SAVE_INTERVAL=20ms")
	k6.Stdout, k6.Stderr = os.Stderr, os.Stderr
	k6.Cancel = func() error { return k6.Process.Signal(os.Interrupt) }
	if err := k6.Run(); err != nil {
		contest.Failf("k6: %w", err)
	}
}
