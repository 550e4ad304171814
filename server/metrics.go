package server

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapes is how many may be under way at once.
const scrapes = 4

// metrics tells Prometheus what the monitor has counted, and how the process is.
func (s *Server) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		s.monitor, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.c.Logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: scrapes,
	}), nil
}
