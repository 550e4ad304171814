package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// load reads the configuration from a file, or the example if there is none.
func load(path string) (*policy.Set, error) {
	if path == "" {
		return policy.Parse("examples/tiers/stint.yaml", tiers.YAML)
	}
	return policy.Load(path)
}

// source is where the limits come from.
type source struct {
	path    string
	watcher *policy.Watcher // nil if there is no file to watch
}

func newSource(path string, guard *policy.Guard, apis *outbound.Registry, logger *slog.Logger) (*source, error) {
	if path == "" {
		return &source{}, nil
	}
	watcher, err := policy.NewWatcher(path, guard, policy.WatchConfig{
		Logger: logger,
		Reloaded: func(r policy.Reload) {
			if !r.Changed {
				return
			}
			if err := apis.Update(guard.Set().Outbound()); err != nil {
				logger.Error("live: the APIs stay as they were", "error", err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &source{path: path, watcher: watcher}, nil
}

// run keeps the limits in step with the file until the context ends.
func (s *source) run(ctx context.Context) {
	if s.watcher == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { _ = s.watcher.Run(ctx) }) // its error is that of the context
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			s.watcher.Reload()
		}
	}
}

// String tells where the limits come from, and what became of the last change, in one line.
func (s *source) String() string {
	if s.watcher == nil {
		return "limits: examples/tiers/stint.yaml, built in; with -config they are in a file that you can change meanwhile"
	}
	last := s.watcher.Last()
	if last.Err != nil {
		mistake, _, _ := strings.Cut(last.Err.Error(), "\n")
		return fmt.Sprintf("limits: the last good %s; what is there now is wrong: %s", s.path, mistake)
	}
	return fmt.Sprintf("limits: %s (changes: %d)", s.path, last.Good)
}
