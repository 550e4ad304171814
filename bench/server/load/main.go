// Command load is `make load`: k6 sends requests of a thousand users of all tiers through `stint
// gateway` with a real Redis, and then every answer is checked, offline, by the log that k6 has
// written. It fails if a denial has no reason, a limit was exceeded or a request failed. It runs
// with a budget that lets Redis make every decision, and with -defaults as people run it, where a
// busy machine has some decisions made without Redis: the same limits hold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/server/process"
	"github.com/stint-limiter/stint/examples/tiers"
)

// settings are what the flags say.
type settings struct {
	stint, k6, script string
	users             int
	duration          time.Duration
	defaults          bool
}

// name is that of the settings, and of the markers between which the result stands in a document.
func (s settings) name() string {
	if s.defaults {
		return "load-defaults"
	}
	return "load"
}

func main() { contest.Main("load", run) }

func run(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&s.stint, "stint", "stint", "the `program` to test")
	flags.StringVar(&s.k6, "k6", "k6", "the `program` that tests it")
	flags.StringVar(&s.script, "script", "load.js", "k6's `script`")
	flags.IntVar(&s.users, "users", 1000, "virtual `users`, in the same proportions")
	flags.DurationVar(&s.duration, "duration", time.Minute, "over what `time` they spread their requests, a minute at most")
	flags.BoolVar(&s.defaults, "defaults", false, "leave the failure mode and the budget as they are by default")
	checked := flags.String("check", "", "only check the `file` that k6 has written")
	keep := flags.String("log", "", "keep the log of requests in `file`")
	out := flags.String("o", "", "write the result into `file`, between its markers of load, or of load-defaults")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.users < 1 || s.duration < time.Second || s.duration > time.Minute {
		return errors.New("want a user at least, and a second to a minute: in a longer time less would be over the limits")
	}
	log := *checked
	if log == "" {
		rack, err := process.NewRack()
		if err != nil {
			return err
		}
		defer rack.Stop()
		if log = *keep; log == "" {
			if log, err = rack.Write("requests.csv", ""); err != nil {
				return err
			}
		}
		if err := s.send(ctx, rack, log); err != nil {
			return err
		}
	}
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	requests, err := readLog(file)
	if err != nil {
		return err
	}
	r, err := summarise(requests)
	if err != nil {
		return err
	}
	fmt.Print(r.text())
	if *out != "" {
		if err := contest.Replace(*out, s.name(), r.text()); err != nil {
			return err
		}
	}
	return r.failure()
}

// failurePolicy has every decision made by Redis, however busy this machine is.
const failurePolicy = "failure: {mode: error, budget: 1s}\n"

// send has k6 send the requests, and write its log.
func (s settings) send(ctx context.Context, rack *process.Rack, log string) error {
	upstream, err := serveUpstream(ctx)
	if err != nil {
		return err
	}
	config, err := rack.Write("policies/stint.yaml", string(tiers.YAML))
	if err != nil {
		return err
	}
	if !s.defaults {
		if _, err := rack.Write("policies/failure.yaml", failurePolicy); err != nil {
			return err
		}
	}
	redis, err := rack.Redis(ctx)
	if err != nil {
		return err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	_, err = rack.Start(ctx, address, nil, s.stint, "gateway", "--config", filepath.Dir(config), "--store",
		"redis://"+redis.Address,
		"--upstream", "http://"+upstream, "--listen", address, "--admin", "", "--drain", "0s")
	if err != nil {
		return err
	}
	k6 := exec.CommandContext(ctx, s.k6, "run", "--quiet", "--no-usage-report", "--summary-mode=disabled",
		"--out", "csv="+log,
		"-e", "TARGET=http://"+address, "-e", fmt.Sprint("VUS=", s.users), "-e",
		fmt.Sprint("SECONDS=", s.duration.Seconds()), s.script)
	// k6 writes what happened in a second at once, unless told otherwise; requests that it makes
	// meanwhile wait for it.
	k6.Env = append(os.Environ(), "K6_CSV_TIME_FORMAT=unix_micro", "K6_CSV_SAVE_INTERVAL=20ms")
	k6.Stdout, k6.Stderr = os.Stderr, os.Stderr
	k6.Cancel = func() error { return k6.Process.Signal(os.Interrupt) }
	if err := k6.Run(); err != nil {
		return fmt.Errorf("k6: %w", err)
	}
	return nil
}

// serveUpstream serves what the gateway protects, until the context ends.
func serveUpstream(ctx context.Context) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})}
	context.AfterFunc(ctx, func() { srv.Close() })
	go srv.Serve(listener) // ends with the context, or with the program
	return listener.Addr().String(), nil
}
