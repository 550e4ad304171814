package server

import (
	"context"
	"errors"

	"github.com/stint-limiter/stint/outbound"
)

// openOutbound makes the clients of the external APIs that the policies name. Callers of the JSON
// API wait for an API by name.
func (s *Server) openOutbound(context.Context) error {
	var err error
	s.apis, err = outbound.New(s.store, s.config.Outbound,
		outbound.Config{Observer: s.monitor, Logger: s.c.Logger})
	if err != nil {
		return err
	}
	s.undo.push("calls to other APIs", func(context.Context) error { s.apis.Close(); return nil })
	s.monitor.WatchOutbound(s.apis.Stats)
	return nil
}

// Outbound returns clients of the external APIs that the policies in force name, for programs that
// embed the server. The clients use the server's store and appear on its dashboard. Stop closes the
// registry.
func (s *Server) Outbound() (*outbound.Registry, error) {
	select {
	case <-s.started:
	default:
		return nil, errors.New("server: not started yet")
	}
	return s.apis, nil
}
