package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

const envoySource = "envoy"

// source is a source of configuration that is read again when it changes.
type source struct {
	name, path string
	files      watcher
}

// watcher is a [config.Watcher], a [reload.Watcher] or an [envoyrls.XDS].
type watcher interface {
	Run(ctx context.Context) error
	Reload() reload.Result
	Last() reload.Result
}

// overridesTime is the maximum time that a starting server waits for overrides. If they cannot be
// read in that time, it starts without them, and applies them once it has read them.
const overridesTime = 5 * time.Second

func (s *Server) openGuard(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, overridesTime)
	defer cancel()
	var err error
	if s.overrides, err = overrides.Open(reading, s.store, overrides.Config{Logger: s.c.Logger}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.undo.push("overrides", func(context.Context) error { s.overrides.Close(); return nil })
	if s.guard, err = policy.NewGuard(s.store, s.config.Set, policy.GuardConfig{
		Observer: s.monitor, Logger: s.c.Logger, Overrides: s.overrides}); err != nil {
		return err
	}
	if s.rules == nil && s.c.Envoy.XDS == nil {
		return nil
	}
	options, err := s.c.Envoy.options()
	if err != nil {
		return err
	}
	options.Failure, options.Logger = s.config.Set.Spec().Failure, s.c.Logger
	options.Observer = s.guard // logs verdicts, and passes them on to the monitor

	// With TLSOnlyGRPC, ClientCA does not protect /json, but then newHTTP serves /json only if it
	// requires a token.
	known := s.envoyTokens != nil || s.c.ClientCA != ""
	options.Public, options.NegativeHits = known || s.c.APIPublic, known
	if s.c.Envoy.Stats {
		s.envoyStats = envoyrls.NewStats(cmp.Or(s.c.Envoy.NearLimit, defaultNearLimit))
		options.Stats = s.envoyStats
	}
	s.envoy = envoyrls.NewService(s.store, s.rules, options)
	s.undo.push("Envoy's requests in progress", func(context.Context) error { return s.envoy.Close() })
	return nil
}

func (s *Server) watch(context.Context) error {
	if s.c.Policies != "" {
		s.sources = append(s.sources, source{"policies", s.c.Policies, &config.Watcher{
			Path: s.c.Policies, Guard: s.guard, Logger: s.c.Logger, Accept: s.c.accept, Reloaded: s.policiesChanged,
		}})
	}
	switch {
	case s.c.Envoy.XDS != nil:
		rules := s.followEnvoy()
		s.sources = append(s.sources, source{envoySource, rules.Path(), rules})
	case s.envoy != nil:
		s.sources = append(s.sources, source{envoySource, s.c.Envoy.Rules, s.watchEnvoy()})
	}
	if s.certificate != nil {
		s.sources = append(s.sources, source{"certificate", s.c.TLSCert, s.certificate.files})
	}
	if from := s.watchStoreFiles(); from != nil && s.shared != nil {
		s.sources = append(s.sources, *from)
	}
	for _, t := range []*tokens{s.apiTokens, s.envoyTokens, s.adminTokens} {
		if t != nil {
			s.sources = append(s.sources, source{t.name, t.path, t.file})
		}
	}
	for _, from := range s.sources {
		if _, arrives := from.files.(*envoyrls.XDS); arrives {
			continue
		}
		if from.files.Last().At.IsZero() { // New has already read the other sources
			if err := from.files.Reload().Err; err != nil {
				return err
			}
		}
		first := from.files.Last()
		first.Changed = true // the first read also counts as a change
		s.reloaded(from.name)(first)
	}
	s.runSources()
	return nil
}

func (s *Server) watchEnvoy() *reload.Watcher {
	path := s.c.Envoy.Rules
	return reload.New(reload.Config{
		Name:  "server: the configuration of Envoy's service",
		Paths: []string{path},
		Deep:  true,
		Open:  func() ([]reload.File, error) { return envoyrls.Open(path) },
		Read: func(files []reload.File) (func() reload.InForce, error) {
			rules, err := envoyrls.Read(files, s.c.Envoy.MergeDomains)
			return func() reload.InForce { return s.envoy.Swap(rules) }, err
		},
		Logger:   s.c.Logger,
		Reloaded: s.reloaded(envoySource),
	})
}

// followEnvoy returns a client that receives the rules from an xDS server. When the first rules
// arrive, the client calls s.step.
func (s *Server) followEnvoy() *envoyrls.XDS {
	x := s.c.Envoy.XDS
	first := sync.OnceFunc(s.step)
	return envoyrls.NewXDS(envoyrls.XDSConfig{
		Server: x.Server, NodeID: x.NodeID, NodeMetadata: x.NodeMetadata, Headers: x.Headers,
		TLS: x.TLS, Files: x.files(), ServerName: x.ServerName,
		MaxMessage: x.MaxMessage, MergeDomains: s.c.Envoy.MergeDomains,
		Use: func(rules *envoyrls.Config) reload.InForce {
			in := s.envoy.Swap(rules)
			first()
			return in
		},
		Reloaded: s.reloaded(envoySource),
		Logger:   s.c.Logger,
	})
}

// reloaded returns a function that reports a source's reloads to the monitor. Reloads of Envoy's
// rules are also counted in the metrics of Envoy's service.
func (s *Server) reloaded(source string) func(reload.Result) {
	return func(r reload.Result) {
		s.monitor.Reloaded(source, r)
		if s.envoyStats != nil && source == envoySource {
			s.envoyStats.Configured(r.Err)
		}
	}
}

// policiesChanged reports a reload, and warns about changed settings that take effect only at the
// next start.
func (s *Server) policiesChanged(r config.Reload) {
	s.reloaded("policies")(r)
	if !r.Changed {
		return
	}
	now := setinfo.Config(s.guard.Set())
	if err := s.apis.Update(now.Outbound); err != nil { // package config has already checked the APIs
		s.c.Logger.Error("server: kept the previous APIs of the outbound section", "cause", err)
	}
	is, was := now.Store, s.config.Store
	if s.c.Store != "" { // the flag takes precedence
		is.URL, was.URL = "", ""
	}
	if s.c.StorePrefix != "" {
		is.Prefix, was.Prefix = "", ""
	}
	if is != was {
		s.c.Logger.Warn("server: the policies name another store, prefix, certificate or name key; it takes effect at the next start")
	}
	if !slices.Equal(now.Webhooks, s.config.Webhooks) {
		s.c.Logger.Warn("server: the policies name other webhooks; they take effect at the next start")
	}
	if now.Instances != s.config.Instances || now.LocalBytes != s.config.LocalBytes ||
		now.BreakerFailures != s.config.BreakerFailures || now.BreakerProbe != s.config.BreakerProbe ||
		now.BreakerRetry != s.config.BreakerRetry ||
		s.envoy != nil && now.Set.Spec().Failure != s.config.Set.Spec().Failure {
		s.c.Logger.Warn("server: the number of instances, the memory for decisions without the store, the breaker, and the failure mode of Envoy's requests take effect at the next start")
	}
}

func (s *Server) runSources() {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, from := range s.sources {
		work.Go(func() { _ = from.files.Run(ctx) }) // Run returns the context's error
	}
	s.undo.push("the file watchers", func(context.Context) error {
		cancel()
		work.Wait()
		return nil
	})
}

// Reload reads all files now, and applies the changed files that are valid. For each invalid file,
// the last valid version stays in force, and the error lists the mistakes. Reload logs the result
// even if no file has changed.
func (s *Server) Reload() error {
	if !s.started.Load() {
		return errNotStarted
	}
	changed, unchanged := []string{}, []string{}
	var errs []error
	for _, from := range s.sources {
		switch r := from.files.Reload(); {
		case r.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", from.name, r.Err))
		case r.Changed:
			changed = append(changed, from.name)
		default:
			unchanged = append(unchanged, from.name)
		}
	}
	err := errors.Join(errs...)
	switch {
	case err != nil:
		s.c.Logger.Error("server: read all files again; the last valid version of those with mistakes stays in force",
			"mistakes", strings.Split(err.Error(), "\n"), "changed", changed, "unchanged", unchanged)
	case len(s.sources) == 0:
		s.c.Logger.Info("server: no files to read again")
	default:
		s.c.Logger.Info("server: read all files again", "changed", changed, "unchanged", unchanged)
	}
	return err
}

func (s *Server) sourceStates() []dashboard.Source {
	list := []dashboard.Source{}
	for _, from := range s.sources {
		r := from.files.Last()
		state := dashboard.Source{Name: from.name, Path: from.path, At: r.At, Good: r.Good, Failed: r.Failed}
		if r.Err != nil {
			state.Error = r.Err.Error()
		}
		list = append(list, state)
	}
	return list
}
