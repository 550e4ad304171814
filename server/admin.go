package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/seldom"
)

// newAdmin returns what is served to operators: the dashboard, and beside it what programs ask for.
func (s *Server) newAdmin() (served, error) {
	metrics, err := s.metrics()
	if err != nil {
		return served{}, err
	}
	guard := s.operators.guard
	if s.operators == nil {
		guard = s.localOnly()
	}
	board, err := s.newDashboard(guard)
	if err != nil {
		return served{}, err
	}

	private := http.NewServeMux()
	private.Handle("GET /metrics", metrics)
	private.HandleFunc("GET /config", s.showConfig)
	if s.envoy != nil {
		private.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
			answer.Text(w, http.StatusOK, s.envoy.Config().Dump())
		})
	}
	// Not the command line: it may hold the password of Redis, or other secrets.
	private.HandleFunc("GET /debug/pprof/", pprof.Index)
	private.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	private.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	private.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	private.HandleFunc("/", nothingHere)

	mux := http.NewServeMux()
	s.vitals.register(mux)
	guarded := guard(private)
	for _, path := range []string{"/metrics", "/config", "/rlconfig", "/debug/"} {
		mux.Handle(path, guarded)
	}
	mux.Handle("/", board)
	on := s.newHTTPServer(sameSite(asWritten(mux)), false)
	finish := on.shutdown
	on.shutdown = func(ctx context.Context) error {
		_ = board.Close() // its streams, which would not end otherwise
		return finish(ctx)
	}
	return on, nil
}

// localOnly returns a guard that lets callers on this host through.
func (s *Server) localOnly() func(next http.Handler) http.Handler {
	var refused seldom.Gate
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if callers.Local(r) {
				next.ServeHTTP(w, r)
				return
			}
			if n, ok := refused.Take(1, time.Second); ok {
				s.c.Logger.Warn("server: somebody who is not on this host was refused on the admin listener", "peer", callers.Peer(r), "unlogged", n)
			}
			answer.Refuse(w, http.StatusForbidden, "forbidden",
				"Without tokens this listener is for this machine only: call it localhost, or by its address, and not through a proxy.")
		})
	}
}

// sameSite refuses what pages of other sites ask for in an operator's browser. They may lead to the page, which holds no data
// of its own: links in chats and in Grafana do.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callers.CrossSite(r) && !(r.URL.Path == "/" && callers.Navigates(r)) {
			answer.Refuse(w, http.StatusForbidden, "forbidden", "This is not for pages of other sites.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// configState is what /config tells.
type configState struct {
	Phase   string        `json:"phase"`
	Store   storeState    `json:"store"`
	Sources []sourceState `json:"sources"`
	// Tiers and Policies are the names of those in force.
	Tiers    []string  `json:"tiers"`
	Policies []string  `json:"policies"`
	Now      time.Time `json:"now"`
}

type storeState struct {
	// Name is "memory", or the URL without its password.
	Name string `json:"name"`
	// Breaker and Instances are those of a store that is shared.
	Breaker   string `json:"breaker,omitempty"`
	Instances int    `json:"instances,omitempty"`
}

// showConfig tells what is in force, and what is wrong with what is not.
func (s *Server) showConfig(w http.ResponseWriter, _ *http.Request) {
	set := s.guard.Set()
	state := configState{
		Phase:    s.vitals.current().String(),
		Store:    storeState{Name: s.storeName},
		Sources:  s.sourceStates(),
		Tiers:    set.Tiers(),
		Policies: set.Policies(),
		Now:      time.Now(),
	}
	if s.stack != nil {
		state.Store.Breaker, state.Store.Instances = s.stack.Breaker().String(), s.stack.Instances()
	}
	answer.Indented(w, http.StatusOK, state)
}

// sourceStates returns those of all sources.
func (s *Server) sourceStates() []sourceState {
	list := []sourceState{}
	for i := range s.sources {
		list = append(list, s.sources[i].state())
	}
	return list
}
