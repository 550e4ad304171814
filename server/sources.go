package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/policy"
)

// source is something that is read from files while the server runs.
type source struct {
	name   string
	path   string
	run    func(context.Context) error
	reload func() reload.Result
	last   func() reload.Result
}

// openGuard makes the guard, which decides requests, and Envoy's service.
func (s *Server) openGuard(context.Context) error {
	var err error
	if s.guard, err = policy.NewGuard(s.store, s.config.Set,
		policy.GuardConfig{Observer: s.monitor, Logger: s.c.Logger}); err != nil {
		return err
	}
	if s.rules == nil {
		return nil
	}
	options, err := s.c.Envoy.options()
	if err != nil {
		return err
	}
	s.envoyWindow = options.Window
	options.Failure, options.Logger = s.config.Set.Spec().Failure, s.c.Logger
	options.Observer = s.monitor
	known := s.envoyTokens != nil || s.c.ClientCA != "" // every caller has shown a token or a certificate
	options.Public, options.NegativeHits = known || s.c.APIPublic, known
	if s.envoy, err = envoyrls.NewService(s.store, s.rules, options); err != nil {
		return err
	}
	s.undo.push("Envoy's requests in progress", func(context.Context) error { return s.envoy.Close() })
	return nil
}

// watch keeps what was read from files up to date with them.
func (s *Server) watch(context.Context) error {
	if s.c.Policies != "" {
		files := &config.Watcher{
			Path: s.c.Policies, Guard: s.guard, Logger: s.c.Logger, Accept: s.c.accept, Reloaded: s.policiesChanged,
		}
		if r := files.Reload(); r.Err != nil {
			return r.Err
		}
		s.sources = append(s.sources, source{
			name: "policies", path: s.c.Policies, run: files.Run,
			reload: func() reload.Result { return reload.Result(files.Reload()) },
			last:   func() reload.Result { return reload.Result(files.Last()) },
		})
	}
	if s.envoy != nil {
		files, err := s.watchEnvoy()
		if err != nil {
			return err
		}
		s.addSource("envoy", s.c.Envoy.Rules, files)
	}
	if s.certificate != nil {
		s.addSource("certificate", s.c.TLSCert, s.certificate.files)
	}
	for _, t := range []*tokens{s.apiTokens, s.envoyTokens, s.adminTokens} {
		if t != nil {
			s.addSource(t.name, t.path, t.file)
		}
	}
	for _, from := range s.sources { // the first read was a change, too
		s.monitor.Reloaded(from.name, true, nil, from.last().At)
	}
	s.runSources()
	return nil
}

// reloaded returns a function that reports a source's reloads to the monitor.
func (s *Server) reloaded(source string) func(reload.Result) {
	return func(r reload.Result) { s.monitor.Reloaded(source, r.Changed, r.Err, r.At) }
}

// policiesChanged reports a reload of the policies to the monitor, and logs settings that only take
// effect at the next start.
func (s *Server) policiesChanged(r config.Reload) {
	s.reloaded("policies")(reload.Result(r))
	if !r.Changed {
		return
	}
	now := config.Of(s.guard.Set())
	is, was := now.Store, s.config.Store
	if s.c.Store != "" { // the flag wins
		is.URL, was.URL = "", ""
	}
	if is != was {
		s.c.Logger.Warn("server: the policies name another store, prefix or name key; it takes effect at the next start")
	}
	if now.Instances != s.config.Instances || now.LocalBytes != s.config.LocalBytes ||
		s.envoy != nil && now.Set.Spec().Failure != s.config.Set.Spec().Failure {
		s.c.Logger.Warn("server: the number of instances, the memory for decisions without the store, and the failure mode of Envoy's requests take effect at the next start")
	}
}

func (s *Server) addSource(name, path string, files *reload.Watcher) {
	s.sources = append(s.sources, source{name: name, path: path, run: files.Run, reload: files.Reload,
		last: files.Last})
}

func (s *Server) runSources() {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, from := range s.sources {
		work.Go(func() { _ = from.run(ctx) }) // its error is that of the context
	}
	s.undo.push("the file watchers", func(context.Context) error {
		cancel()
		work.Wait()
		return nil
	})
}

// Reload reads all files now, and applies what has changed and is valid. The error lists what is
// wrong with the others; for these, what was read before stays in force.
func (s *Server) Reload() error {
	select {
	case <-s.started:
	default:
		return errors.New("server: not started yet")
	}
	var errs []error
	for _, from := range s.sources {
		if r := from.reload(); r.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from.name, r.Err))
		}
	}
	return errors.Join(errs...)
}

// sourceState is a source on the admin listener.
type sourceState struct {
	Name   string    `json:"name"`
	Path   string    `json:"path"`
	At     time.Time `json:"looked_at"`
	Good   int       `json:"changes"`
	Failed int       `json:"refused"`
	// Error is why the files are not in force.
	Error string `json:"error,omitempty"`
}

func (f *source) state() sourceState {
	r := f.last()
	state := sourceState{Name: f.name, Path: f.path, At: r.At, Good: r.Good, Failed: r.Failed}
	if r.Err != nil {
		state.Error = r.Err.Error()
	}
	return state
}
