package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How much of what a client sent is logged.
const (
	maxLoggedMethod = 16
	maxLoggedHost   = 64
	maxLoggedPath   = 128
	maxLoggedQuery  = 256
	maxLoggedCause  = 512
)

// log writes the entry for a request. What comes from outside is on one line and shortened.
func (x *exchange) log() {
	g := x.gateway
	level := slog.LevelInfo
	if x.cause != nil && x.status >= http.StatusInternalServerError || !x.returned && !x.abandoned() {
		level = slog.LevelWarn
	} else if !g.loggable() {
		return
	}
	// The request's context may have ended, which is no reason not to tell.
	ctx := context.WithoutCancel(x.request.Context())
	if !g.config.Logger.Enabled(ctx, level) {
		return
	}
	var room [20]slog.Attr
	g.config.Logger.LogAttrs(ctx, level, "stint: request", x.attrs(room[:0])...)
}

// loggable reports whether a request that went well is one of those that are logged.
func (g *Gateway) loggable() bool {
	access := &g.config.AccessLog
	return !access.Off && (access.Every <= 1 || g.served.Add(1)%uint64(access.Every) == 1)
}

func (x *exchange) attrs(list []slog.Attr) []slog.Attr {
	r := x.request
	list = append(list,
		slog.String("method", loggable(r.Method, maxLoggedMethod)),
		slog.String("host", loggable(r.Host, maxLoggedHost)),
		slog.String("path", loggable(r.URL.EscapedPath(), maxLoggedPath)))
	if x.gateway.config.AccessLog.Query && r.URL.RawQuery != "" {
		list = append(list, slog.String("query", loggable(r.URL.RawQuery, maxLoggedQuery)))
	}
	list = append(list,
		slog.Int("status", x.status), slog.Int64("bytes", x.bytes), slog.Duration("duration", time.Since(x.began).Round(time.Microsecond)))
	if x.peer.IsValid() {
		list = append(list, slog.String("peer", x.peer.String()))
	}
	if v := x.verdict; v != nil {
		policy := x.policy
		if rule, _ := v.Decisive(); policy == "" && rule != nil {
			policy = rule.Name()
		}
		list = append(list,
			slog.String("tier", v.Tier), slog.String("policy", policy), slog.String("route", v.Route), slog.Bool("limited", x.limited))
		if v.Decision.Degraded {
			list = append(list, slog.Bool("degraded", true))
		}
	}
	if x.forwarded != nil {
		list = append(list, slog.String("upstream", x.route.name))
	}
	if !x.returned {
		list = append(list, slog.Bool("aborted", true))
	}
	if x.id != "" {
		list = append(list, slog.String("request_id", x.id))
	}
	if x.cause != nil {
		list = append(list, slog.String("cause", loggable(x.cause.Error(), maxLoggedCause)))
	}
	return list
}

// loggable makes a text fit to be logged: printable ASCII, on one line, and no longer than most.
func loggable(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = strings.ToValidUTF8(s[:most], "")
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			quoted := strconv.QuoteToASCII(s)
			s = quoted[1 : len(quoted)-1]
			break
		}
	}
	if cut {
		s += "..."
	}
	return s
}
