package server

import (
	"context"
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/internal/callers"
)

// newDashboard returns the dashboard, with its API behind the guard. Its streams end with the
// context.
func (s *Server) newDashboard(ctx context.Context, guard func(http.Handler) http.Handler) (http.Handler, error) {
	c := dashboard.Config{
		Monitor:      s.monitor,
		Store:        s.store,
		Set:          s.guard.Set,
		Overrides:    s.overrides,
		Phase:        s.health.current,
		Sources:      s.sourceStates,
		Guard:        guard,
		ShowSubjects: s.c.Observe.ShowSubjects,
		Logger:       s.c.Logger,
		Version:      s.c.Observe.Version,
	}
	if s.envoy != nil {
		c.Envoy = func(subject string) (string, []stint.Limit) {
			return s.envoy.Config().LimitsOf(subject, s.envoyWindow)
		}
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
