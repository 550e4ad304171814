package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/logsample"
)

// log logs what people on call need to know, at most once a second for each kind. Nothing in it
// comes from the body of a request.
type log struct {
	logger                    *slog.Logger
	failures, distrusted, odd logsample.Sampler
}

// failed logs a failure of the store. A caller that has gone away, or an invalid request, is not
// one.
func (l *log) failed(what string, err error) {
	var invalid *stint.InvalidError
	if errors.Is(err, context.Canceled) || errors.As(err, &invalid) {
		return
	}
	if n, ok := l.failures.Allow(1, time.Second); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", n)
	}
}

// untrusted logs a proxy that the configuration does not trust.
func (l *log) untrusted(peer string) {
	if n, ok := l.distrusted.Allow(1, time.Second); ok {
		l.logger.Error("stint: forward-auth was asked by a peer that is not a trusted proxy; if it is one, add it to client_ip.trusted_proxies",
			"peer", peer, "unlogged", n)
	}
}

// misled logs a proxy that does not describe its request.
func (l *log) misled(peer, why string) {
	if n, ok := l.odd.Allow(1, time.Second); ok {
		l.logger.Error("stint: forward-auth got a request that it cannot read: "+why, "peer", peer, "unlogged", n)
	}
}
