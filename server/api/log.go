package api

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// log tells of what people on call want to know, once a second for each kind at most. Nothing in it comes from the body of a
// request.
type log struct {
	logger                               *slog.Logger
	failures, strangers, distrusted, odd last
}

// last is when something was last told, and how often it was not since.
type last struct{ at, dropped atomic.Int64 }

// take reports whether to tell, and how many were not told since the last time.
func (l *last) take() (dropped int64, ok bool) {
	now := time.Now().UnixNano()
	if at := l.at.Load(); at != 0 && now-at < int64(time.Second) || !l.at.CompareAndSwap(at, now) {
		l.dropped.Add(1)
		return 0, false
	}
	return l.dropped.Swap(0), true
}

// failed tells of a store that failed. A caller that has gone away, or has asked for what cannot be, is no failure.
func (l *log) failed(what string, err error) {
	var invalid *stint.InvalidError
	if errors.Is(err, context.Canceled) || errors.As(err, &invalid) {
		return
	}
	if n, ok := l.failures.take(); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", n)
	}
}

// stranger tells of a caller without a token.
func (l *log) stranger(peer, why string) {
	if n, ok := l.strangers.take(); ok {
		l.logger.Warn("stint: a caller of the API was refused: "+why, "peer", peer, "unlogged", n)
	}
}

// untrusted tells of a proxy that nobody has said to trust.
func (l *log) untrusted(peer string) {
	if n, ok := l.distrusted.take(); ok {
		l.logger.Error("stint: forward-auth was asked by a peer that is not a trusted proxy; if it is one, add it to client_ip.trusted_proxies",
			"peer", peer, "unlogged", n)
	}
}

// misled tells of a proxy that does not say what it asks about.
func (l *log) misled(peer, why string) {
	if n, ok := l.odd.take(); ok {
		l.logger.Error("stint: forward-auth cannot tell what it is asked about: "+why, "peer", peer, "unlogged", n)
	}
}
