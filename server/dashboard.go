package server

import (
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/server/control"
	"github.com/stint-limiter/stint/server/dashboard"
)

// newDashboard returns the page for operators, and what it asks for behind the guard.
func (s *Server) newDashboard(guard func(http.Handler) http.Handler) (*dashboard.Dashboard, error) {
	desk := control.Config{Store: s.store, Set: s.guard.Set, EnvoyWindow: s.c.EnvoyOptions.Window}
	desk.Inspector, _ = s.store.(stint.Inspector)
	if s.envoy != nil {
		desk.Envoy = s.envoy.Config
	}
	c := dashboard.Config{
		Monitor: s.monitor,
		Desk:    control.New(desk),
		Set:     s.guard.Set,
		Phase:   func() string { return s.vitals.current().String() },
		Sources: func() []dashboard.Source {
			var list []dashboard.Source
			for _, state := range s.sourceStates() {
				list = append(list, dashboard.Source(state))
			}
			return list
		},
		Guard:        guard,
		ShowSubjects: s.c.Observe.ShowSubjects,
		Logger:       s.c.Logger,
		Version:      s.c.Observe.Version,
	}
	switch {
	case s.operators != nil:
		c.Who = func(r *http.Request) (name string, operates bool) {
			holder, _ := s.operators.list.Load().Holder(r.Header["Authorization"])
			return holder.Name, holder.Role == callers.Operate
		}
	case s.c.AdminOpen:
		c.Who = func(*http.Request) (name string, operates bool) { return "anyone on this host", true }
	}
	return dashboard.New(c)
}
