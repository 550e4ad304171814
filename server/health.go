package server

import (
	"net/http"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-limiter/stint/internal/answer"
)

const (
	starting = "starting"
	ready    = "ready"
	draining = "draining"
)

// healthState tells load balancers and supervisors whether the server is ready. The server is ready
// even while the store is down, because it then decides requests according to the failure policy.
type healthState struct {
	phase atomic.Value // a string
	grpc  *health.Server
	// healthy makes /healthcheck succeed while the server is starting.
	healthy bool

	mu      sync.Mutex
	missing int // number of events that must happen before the server is ready
}

// newHealth returns the state of a server that is starting. services are the names of its gRPC
// services.
func newHealth(services ...string) *healthState {
	h := &healthState{grpc: health.NewServer(), missing: 1} // the server is not listening yet
	for _, name := range services {
		h.grpc.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	h.enter(starting)
	return h
}

// happened records one of the events that must happen before the server is ready. It reports
// whether this event made the server ready. A server that is already draining stays in that phase.
func (h *healthState) happened() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missing--; h.missing > 0 || h.current() != starting {
		return false
	}
	h.enter(ready)
	return true
}

func (h *healthState) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enter(draining)
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

// register adds the probes to mux. /livez always succeeds, and /readyz succeeds if the server is
// ready.
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

// healthcheck answers as envoyproxy/ratelimit does: with OK if the server is ready, or if it is
// starting and h.healthy is set. Otherwise, it answers with 500, so that load balancers stop
// sending requests.
func (h *healthState) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if phase := h.current(); phase == ready || phase == starting && h.healthy {
		answer.Text(w, http.StatusOK, "OK")
		return
	}
	answer.Text(w, http.StatusInternalServerError, "")
}

// closeWhileDraining returns a handler that, while the server drains, makes clients use a new
// connection for their next request. As a result, any connection that is still open when the server
// stops is idle, so the server can close it.
func (h *healthState) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.current() == draining {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
