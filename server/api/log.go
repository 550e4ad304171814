package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/seldom"
)

// log tells of what people on call want to know, once a second for each kind at most. Nothing in it comes from the body of a
// request.
type log struct {
	logger                    *slog.Logger
	failures, distrusted, odd seldom.Gate
}

// failed tells of a store that failed. A caller that has gone away, or has asked for what cannot be, is no failure.
func (l *log) failed(what string, err error) {
	var invalid *stint.InvalidError
	if errors.Is(err, context.Canceled) || errors.As(err, &invalid) {
		return
	}
	if n, ok := l.failures.Take(1, time.Second); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", n)
	}
}

// untrusted tells of a proxy that nobody has said to trust.
func (l *log) untrusted(peer string) {
	if n, ok := l.distrusted.Take(1, time.Second); ok {
		l.logger.Error("stint: forward-auth was asked by a peer that is not a trusted proxy; if it is one, add it to client_ip.trusted_proxies",
			"peer", peer, "unlogged", n)
	}
}

// misled tells of a proxy that does not say what it asks about.
func (l *log) misled(peer, why string) {
	if n, ok := l.odd.Take(1, time.Second); ok {
		l.logger.Error("stint: forward-auth cannot tell what it is asked about: "+why, "peer", peer, "unlogged", n)
	}
}
