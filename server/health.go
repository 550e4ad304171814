package server

import (
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-limiter/stint/internal/answer"
)

// The phases of a server.
const (
	starting = "starting"
	ready    = "ready"
	draining = "draining"
)

// healthState shows load balancers and supervisors whether the server is ready. A store that is
// down does not make it unready: it still decides, as the failure policy says.
type healthState struct {
	phase atomic.Value // a string
	grpc  *health.Server
}

// newHealth returns the state of a server that is starting, with names of services for gRPC.
func newHealth(services ...string) *healthState {
	h := &healthState{grpc: health.NewServer()}
	for _, name := range services {
		h.grpc.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	h.enter(starting)
	return h
}

func (h *healthState) enter(phase string) {
	h.phase.Store(phase)
	if phase == ready {
		h.grpc.Resume()
	} else {
		h.grpc.Shutdown()
	}
}

func (h *healthState) current() string { return h.phase.Load().(string) }

// register adds the probes: /livez is whether the process works, /readyz whether to send requests.
func (h *healthState) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer.Text(w, http.StatusOK, "live\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		phase, status := h.current(), http.StatusServiceUnavailable
		if phase == ready {
			status = http.StatusOK
		}
		answer.Text(w, status, phase+"\n")
	})
}

// healthcheck is /readyz as in envoyproxy/ratelimit: OK, or 500 to be taken out of rotation.
func (h *healthState) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if h.current() == ready {
		answer.Text(w, http.StatusOK, "OK")
		return
	}
	answer.Text(w, http.StatusInternalServerError, "")
}

// closeWhileDraining makes clients use a new connection for their next request while the server
// drains. So those that are closed in the end are idle.
func (h *healthState) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.current() == draining {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
