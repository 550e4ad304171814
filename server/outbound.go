package server

import (
	"errors"

	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/outbound"
)

// Outbound returns clients of the external APIs that the policies in force name, for a program that
// embeds the server. They use its store and are on its dashboard. Close the registry before Stop.
func (s *Server) Outbound() (*outbound.Registry, error) {
	select {
	case <-s.started:
	default:
		return nil, errors.New("server: not started yet")
	}
	registry, err := outbound.New(s.store, setinfo.Config(s.guard.Set()).Outbound,
		outbound.Config{Observer: s.monitor, Logger: s.c.Logger})
	if err != nil {
		return nil, err
	}
	s.monitor.WatchOutbound(registry.Stats)
	return registry, nil
}
