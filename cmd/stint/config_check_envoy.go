package main

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

type envoySummary struct {
	Domains int `json:"domains"`
	Limits  int `json:"limits"`
}

func (s *envoySummary) String() string {
	return fmt.Sprintf("%s, %s", count(s.Domains, "domain", "domains"), count(s.Limits, "limit", "limits"))
}

// loadEnvoy reads rules for Envoy's service. It returns errors of the same types as [system.load].
func (s *system) loadEnvoy(path string, mergeDomains bool) (*envoySummary, error) {
	var rules *envoyrls.Config
	var err error
	if path == stdinPath {
		var text []byte
		if text, err = s.readStdin(); err == nil {
			rules, err = envoyrls.Parse(stdinName, text)
		}
	} else {
		rules, err = envoyrls.Load(path, mergeDomains)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	domains, limits := rules.Size()
	return &envoySummary{domains, limits}, nil
}
