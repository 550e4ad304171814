package server

import (
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-limiter/stint/internal/answer"
)

// phase is how far a server is in its life.
type phase int32

const (
	starting phase = iota
	ready
	draining
)

var phaseNames = [...]string{"starting", "ready", "draining"}

func (p phase) String() string { return phaseNames[p] }

// vitals tells load balancers and supervisors how a server is. A store that is down does not make it unready:
// decisions are made all the same, as the failure policy says.
type vitals struct {
	phase atomic.Int32
	grpc  *health.Server
}

// newVitals returns those of a server that is starting. Over gRPC they are asked for by the names of its services.
func newVitals(services ...string) *vitals {
	v := &vitals{grpc: health.NewServer()}
	for _, name := range services {
		v.grpc.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	v.enter(starting)
	return v
}

// enter begins a phase.
func (v *vitals) enter(p phase) {
	v.phase.Store(int32(p))
	if p == ready {
		v.grpc.Resume()
	} else {
		v.grpc.Shutdown()
	}
}

func (v *vitals) current() phase { return phase(v.phase.Load()) }

// register adds the probes to a listener: /livez is whether the process works, /readyz whether to send it requests.
func (v *vitals) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer.Text(w, http.StatusOK, "live\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		p := v.current()
		if p == ready {
			answer.Text(w, http.StatusOK, "ready\n")
			return
		}
		answer.Text(w, http.StatusServiceUnavailable, p.String()+"\n")
	})
}

// healthcheck is /readyz as users of envoyproxy/ratelimit know it: OK, or 500 for what is to be taken out of rotation.
func (v *vitals) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if v.current() == ready {
		answer.Text(w, http.StatusOK, "OK")
		return
	}
	answer.Text(w, http.StatusInternalServerError, "")
}

// farewell has clients that come while the server drains use another connection for their next request. So the
// connections that are closed in the end are those on which nothing is under way.
func (v *vitals) farewell(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v.current() == draining {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
