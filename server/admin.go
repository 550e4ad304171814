package server

import (
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/seldom"
)

// newAdmin returns what is served to operators.
func (s *Server) newAdmin() (served, error) {
	mux := http.NewServeMux()
	s.vitals.register(mux)
	metrics, err := s.metrics()
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
	private.HandleFunc("GET /debug/pprof/", pprof.Index)
	private.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	private.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	private.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	private.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	private.HandleFunc("/", nothingHere)
	guarded := s.operators.guard(private)
	if s.operators == nil {
		guarded = s.localOnly(private)
	}
	mux.Handle("/", guarded)
	return s.newHTTPServer(asWritten(mux), false), nil
}

// localOnly serves callers on this host.
func (s *Server) localOnly(next http.Handler) http.Handler {
	var refused seldom.Gate
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
		Sources:  []sourceState{},
		Tiers:    set.Tiers(),
		Policies: set.Policies(),
		Now:      time.Now(),
	}
	if s.stack != nil {
		state.Store.Breaker, state.Store.Instances = s.stack.Breaker().String(), s.stack.Instances()
	}
	for i := range s.sources {
		state.Sources = append(state.Sources, s.sources[i].state())
	}
	answer.Indented(w, http.StatusOK, state)
}
