package server

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const maxScrapes = 4

// newMetrics returns the endpoint of the metrics listener. It needs no token, because labels are
// names from the configuration, never text from a request.
func (s *Server) newMetrics() (endpoint, error) {
	mux := http.NewServeMux()
	s.health.register(mux)
	mux.Handle("GET /metrics", s.scrapes())
	mux.HandleFunc("/", notFound)
	return s.newHTTPServer(sameSite(exactPaths(mux)), false), nil
}

func (s *Server) scrapes() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.monitor, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.envoyStats != nil {
		registry.MustRegister(s.envoyStats)
	}
	if s.api != nil {
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_api_waiting",
				Help: "Calls of POST /v1/wait that are waiting."},
				func() float64 { waiting, _ := s.api.Waits(); return float64(waiting) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_api_waits_refused_total",
				Help: "Calls of POST /v1/wait that were refused because too many were waiting."},
				func() float64 { _, refused := s.api.Waits(); return float64(refused) }))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.c.Logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: maxScrapes,
	})
}
