package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/resilience"
)

func (s *Server) newAdmin() (endpoint, error) {
	guard := s.adminTokens.guard
	if s.adminTokens == nil {
		guard = callers.LocalOnly(s.c.Logger, "the admin listener",
			"Without tokens, this listener serves only this machine: use localhost or its address, without a proxy.")
	}
	ctx, end := context.WithCancel(context.Background())
	board, err := s.newDashboard(ctx, guard)
	if err != nil {
		end()
		return endpoint{}, err
	}

	private := http.NewServeMux()
	private.Handle("GET /metrics", s.scrapes())
	private.HandleFunc("GET /config", s.showConfig)
	if s.envoy != nil {
		private.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
			answer.Text(w, http.StatusOK, s.envoy.Config().Dump())
		})
	}
	// /debug/pprof/cmdline is left out: the command line may contain the Redis password or other
	// secrets.
	private.HandleFunc("GET /debug/pprof/", pprof.Index)
	private.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	private.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	private.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	private.HandleFunc("/", notFound)

	mux := http.NewServeMux()
	s.health.register(mux)
	guarded := guard(private)
	for _, path := range []string{"/metrics", "/config", "/rlconfig", "/debug/"} {
		mux.Handle(path, guarded)
	}
	mux.Handle("/", board)
	ep := s.newHTTPServer(sameSite(exactPaths(mux)), false)
	finish := ep.shutdown
	ep.shutdown = func(ctx context.Context) error {
		end() // the dashboard's streams do not end by themselves
		return finish(ctx)
	}
	return ep, nil
}

// sameSite returns a handler that rejects requests that a page of another site sends from an
// operator's browser. It allows links to the dashboard, for example from chats and Grafana, because
// the dashboard's page itself contains no data.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callers.CrossSite(r) && !(r.URL.Path == "/" && callers.Navigates(r)) {
			answer.Refuse(w, http.StatusForbidden, "forbidden", "Requests from pages of other sites are not allowed.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

type configState struct {
	Phase   string             `json:"phase"`
	Store   storeState         `json:"store"`
	Sources []dashboard.Source `json:"sources"`
	// Tiers and Policies are the names of the tiers and policies in force.
	Tiers    []string  `json:"tiers"`
	Policies []string  `json:"policies"`
	Now      time.Time `json:"now"`
}

type storeState struct {
	// Name is "memory", or the Redis URL without the password.
	Name string `json:"name"`
	// Breaker, BreakerSettings and Instances are set only for a shared store.
	Breaker         resilience.BreakerState `json:"breaker,omitempty"`
	BreakerSettings *breakerState           `json:"breaker_settings,omitempty"`
	Instances       int                     `json:"instances,omitempty"`
}

func (s *Server) showConfig(w http.ResponseWriter, _ *http.Request) {
	set := s.guard.Set()
	state := configState{
		Phase:    s.health.current(),
		Store:    storeState{Name: s.storeName},
		Sources:  s.sourceStates(),
		Tiers:    setinfo.Tiers(set),
		Policies: setinfo.Policies(set),
		Now:      time.Now(),
	}
	if s.shared != nil {
		state.Store.Breaker, state.Store.Instances = s.shared.Breaker(), s.shared.Instances()
		state.Store.BreakerSettings = s.breaker()
	}
	answer.Indented(w, http.StatusOK, state)
}

// newDashboard returns the dashboard. guard protects its API. Its streams end when ctx ends.
func (s *Server) newDashboard(ctx context.Context, guard func(http.Handler) http.Handler) (http.Handler, error) {
	c := dashboard.Config{
		Monitor:      s.monitor,
		Store:        s.store,
		Set:          s.guard.Set,
		Overrides:    s.overrides,
		Phase:        s.health.current,
		Sources:      s.sourceStates,
		Protect:      guard,
		ShowSubjects: s.c.Observe.ShowSubjects,
		Logger:       s.c.Logger,
		Version:      s.c.Observe.Version,
	}
	if s.envoy != nil {
		c.Envoy = s.envoy.LimitsOf
	}
	switch {
	case s.adminTokens != nil:
		c.Who = func(r *http.Request) (name string, operates bool) {
			holder, _ := s.adminTokens.list.Load().Holder(r.Header["Authorization"])
			return holder.Name, holder.Role == callers.Operate
		}
	case s.c.AdminOpen:
		c.Who = func(*http.Request) (name string, operates bool) { return "anyone on this host", true }
	}
	return dashboard.New(ctx, c)
}
