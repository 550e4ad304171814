package server

import (
	"errors"

	"github.com/stint-limiter/stint/outbound"
)

// Outbound returns the other people's APIs that the policies in force name, for a program that calls them and that the server
// is a part of. They are limited by the server's store and shown on its dashboard. Close the registry before Stop.
func (s *Server) Outbound() (*outbound.Registry, error) {
	select {
	case <-s.started:
	default:
		return nil, errors.New("server: it has not been started")
	}
	registry, err := outbound.New(s.store, s.guard.Set().Outbound(), outbound.Config{Observer: s.monitor, Logger: s.c.Logger})
	if err != nil {
		return nil, err
	}
	s.monitor.WatchOutbound(registry.Stats)
	return registry, nil
}
