package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// source is something that is read from files while the server runs.
type source struct {
	name   string
	path   string
	run    func(context.Context) error
	reload func() reload.Result
	last   func() reload.Result
}

// openGuard makes what judges requests.
func (s *Server) openGuard(context.Context) error {
	var err error
	if s.guard, err = policy.NewGuard(s.store, s.set, policy.GuardConfig{Observer: s.monitor, Logger: s.c.Logger}); err != nil {
		return err
	}
	if s.rules == nil {
		return nil
	}
	options := s.c.EnvoyOptions
	options.Failure, options.Logger = s.set.Failure(), s.c.Logger
	options.Observer = envoyObserver{s.monitor}
	known := s.proxies != nil || s.c.TLS.ClientCA != "" // whoever calls has shown a token or a certificate
	options.Public, options.NegativeHits = known || s.c.API.Public, known
	if s.envoy, err = envoyrls.NewService(s.store, s.rules, options); err != nil {
		return err
	}
	s.undo.push("what Envoy's requests have begun", func(context.Context) error { return s.envoy.Close() })
	return nil
}

// watch keeps what was read from files in step with them.
func (s *Server) watch(context.Context) error {
	if s.c.Policies != "" {
		files, err := policy.NewWatcher(s.c.Policies, s.guard, policy.WatchConfig{
			Logger: s.c.Logger, Accept: s.c.accept, Reloaded: s.changed,
		})
		if err != nil {
			return err
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
		s.addSource("envoy", s.c.Envoy, files)
	}
	if s.certificate != nil {
		s.addSource("certificate", s.c.TLS.Cert, s.certificate.files)
	}
	for _, t := range []*tokens{s.callers, s.proxies, s.operators} {
		if t != nil {
			s.addSource(t.name, t.path, t.file)
		}
	}
	for _, from := range s.sources { // reading them for the first time was a change, too
		s.monitor.Reloaded(from.name, true, nil, from.last().At)
	}
	s.runSources()
	return nil
}

// reloaded returns what tells the monitor of a source.
func (s *Server) reloaded(source string) func(reload.Result) {
	return func(r reload.Result) { s.monitor.Reloaded(source, r.Changed, r.Err, r.At) }
}

// changed tells the monitor of a change of the policies, and the log of what it does not change before the next start.
func (s *Server) changed(r policy.Reload) {
	s.reloaded("policies")(reload.Result(r))
	if !r.Changed {
		return
	}
	set := s.guard.Set()
	is, was := set.Store(), s.set.Store()
	if s.c.Store != "" { // which goes first
		is.URL, was.URL = "", ""
	}
	if is != was {
		s.c.Logger.Warn("server: the policies name another store now, or another prefix or name key for it; that is used after the next start only")
	}
	if set.Instances() != s.set.Instances() || set.LocalBytes() != s.set.LocalBytes() || s.envoy != nil && set.Failure() != s.set.Failure() {
		s.c.Logger.Warn("server: the number of instances, the memory for decisions without the store, and what happens to Envoy's requests when the store fails, change at the next start only")
	}
}

func (s *Server) addSource(name, path string, files *reload.Watcher) {
	s.sources = append(s.sources, source{name: name, path: path, run: files.Run, reload: files.Reload, last: files.Last})
}

func (s *Server) runSources() {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, from := range s.sources {
		work.Go(func() { _ = from.run(ctx) }) // its error is that of the context
	}
	s.undo.push("the watch over files", func(context.Context) error {
		cancel()
		work.Wait()
		return nil
	})
}

// Reload looks at all files now, and puts in force what has changed and is good. The error has all that is wrong with the
// others; what they were read as before stays in force.
func (s *Server) Reload() error {
	select {
	case <-s.started:
	default:
		return errors.New("server: it has not been started")
	}
	var errs []error
	for _, from := range s.sources {
		if r := from.reload(); r.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from.name, r.Err))
		}
	}
	return errors.Join(errs...)
}

// sourceState is what the admin listener tells of a source.
type sourceState struct {
	Name   string    `json:"name"`
	Path   string    `json:"path"`
	At     time.Time `json:"looked_at"`
	Good   int       `json:"changes"`
	Failed int       `json:"refused"`
	// Error is why what is in the files is not in force.
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
