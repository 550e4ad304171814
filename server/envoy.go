package server

import (
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// watchEnvoy keeps Envoy's service up to date with its rules.
func (s *Server) watchEnvoy() *reload.Watcher {
	path := s.c.Envoy.Rules
	return reload.New(reload.Config{
		Name:  "server: the rules of Envoy's service",
		Paths: []string{path},
		Deep:  true,
		Open:  func() ([]reload.File, error) { return envoyrls.Open(path) },
		Read: func(files []reload.File) (func(), error) {
			rules, err := envoyrls.Read(files, s.c.Envoy.MergeDomains)
			return func() { s.envoy.Swap(rules) }, err
		},
		Logger:   s.c.Logger,
		Reloaded: s.reloaded("envoy"),
	})
}
