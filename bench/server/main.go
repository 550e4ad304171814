// Command server compares stint's daemon with other servers: programs that it starts on this
// machine and calls in turn, all with the same driver. Medians are compared, and the bars, stint's
// performance goals, are checked at the end. Missing a bar is a result, not a failure.
//
//	make bench-server                                  everything, about a quarter of an hour
//	make bench-server BENCHFLAGS="-short"              everything, coarser, a few minutes
//	make bench-server BENCHFLAGS="-only rls,gateway"   some suites
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// programs holds the paths of the programs to start.
type programs struct {
	stint     string
	ratelimit string // if "" or missing, the others are measured without it
}

// start starts a command of stint with a configuration and a store. flag is the flag for the
// address on which the command listens.
func (p *programs) start(ctx context.Context, rack *process.Rack, command, flag, config, store string,
	args ...string) *process.Process {
	address := process.FreeAddress()
	file := rack.Write(address+"/stint.yaml", config)
	args = append([]string{command, flag, address, "--config", file, "--store", store, "--admin", "", "--drain", "0s"},
		args...)
	return rack.Start(ctx, address, nil, p.stint, args...)
}

func main() {
	contest.Main("bench-server", func(ctx context.Context, args []string) error {
		if len(args) > 0 && args[0] == bareCommand {
			return runBare(ctx, args[1:])
		}
		return run(ctx, args)
	})
}

func run(ctx context.Context, args []string) error {
	var p programs
	return contest.Command{
		Name: "bench-server",
		Suites: []contest.Suite{
			{Name: "rls", Run: p.runRLS},
			{Name: "rls-cpu", Run: p.runRLSCPU},
			{Name: "gateway", Run: p.runGateway},
			{Name: "llm", Run: p.runLLM},
			{Name: "api", Run: p.runAPI},
			{Name: "memory", Run: p.runMemory},
		},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&p.stint, "stint", "stint", "the `program` to measure")
			flags.StringVar(&p.ratelimit, "ratelimit", "", "the envoyproxy/ratelimit `program`; if missing, the others are measured without it")
		},
		About: func(s contest.Settings) string {
			return fmt.Sprintf("%v a round; %s", length(s), version(process.RedisProgram(), "--version"))
		},
	}.Run(ctx, args, os.Stdout)
}

// length returns the duration of a contender's turn in a round.
func length(s contest.Settings) time.Duration {
	return contest.Pick(s, time.Second, 300*time.Millisecond)
}

// version returns the first line that a program prints about its version.
func version(program string, arg string) string {
	text, err := exec.Command(program, arg).CombinedOutput() // nginx prints it on standard error
	if err != nil {
		return program + ", version unknown"
	}
	line, _, _ := strings.Cut(string(bytes.TrimSpace(text)), "\n")
	return line
}

// count formats a number in groups of three digits.
func count(v float64) string { return contest.Count(int64(v + 0.5)) }

func milliseconds(micros float64) string { return fmt.Sprintf("%.2f", micros/1000) }
