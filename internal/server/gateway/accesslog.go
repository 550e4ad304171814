package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/label"
)

// Maximum lengths, in bytes, of text from clients and upstreams in a log record.
const (
	maxLoggedMethod = 16
	maxLoggedHost   = 64
	maxLoggedPath   = 128
	maxLoggedQuery  = 256
	maxLoggedCause  = 512
)

// maxRefusals is the maximum number of denied requests that are logged per second, unless the
// configuration allows more. It is also the maximum for requests that are refused before they are
// charged, because no limit bounds how many of them arrive.
const maxRefusals = 100

// log writes the access log record of a request, unless the configuration or sampling excludes it.
// Text from clients and upstreams is shortened, and is kept on one line.
func (x *requestState) log() {
	g := x.gateway
	level := slog.LevelInfo
	if x.failed() {
		level = slog.LevelWarn
	} else if !g.loggable() {
		return
	}
	// Log even if the request's context has ended.
	ctx := context.WithoutCancel(x.request.Context())
	if !g.config.Logger.Enabled(ctx, level) {
		return
	}
	unlogged := int64(0)
	if refused := x.limited || x.verdict == nil; refused && !x.failed() {
		var ok bool
		if unlogged, ok = x.sampleRefusal(); !ok {
			return
		}
	}
	var room [20]slog.Attr
	list := x.attrs(room[:0])
	if unlogged > 0 {
		list = append(list, slog.Int64("unlogged", unlogged))
	}
	g.config.Logger.LogAttrs(ctx, level, "stint: request", list...)
}

// failed reports whether a request failed because of the gateway or its connection to the upstream.
// A complete response from the upstream is not a failure, whatever its status.
func (x *requestState) failed() bool {
	return x.cause != nil && x.status >= http.StatusInternalServerError || !x.returned && !x.abandoned()
}

// sampleRefusal reports whether to log a refused request, and returns the number of refused
// requests that have not been logged since the last one that was. It allows maxRefusals log records
// per second or, for denials, the maximum in the configuration if that is larger.
func (x *requestState) sampleRefusal() (unlogged int64, ok bool) {
	g := x.gateway
	if x.verdict == nil {
		return g.malformed.Allow(maxRefusals, time.Second)
	}
	most := maxRefusals
	if n := x.verdict.Set.Spec().LogDenials; n != nil {
		most = max(most, *n)
	}
	return g.denied.Allow(most, time.Second)
}

func (g *Gateway) loggable() bool {
	every := g.config.AccessLogEvery
	return !g.config.NoAccessLog && (every <= 1 || g.served.Add(1)%uint64(every) == 1)
}

func (x *requestState) attrs(list []slog.Attr) []slog.Attr {
	r := x.request
	list = append(list,
		slog.String("method", loggable(r.Method, maxLoggedMethod)),
		slog.String("host", loggable(r.Host, maxLoggedHost)),
		slog.String("path", loggable(r.URL.EscapedPath(), maxLoggedPath)))
	if x.gateway.config.AccessLogQuery && r.URL.RawQuery != "" {
		list = append(list, slog.String("query", loggable(r.URL.RawQuery, maxLoggedQuery)))
	}
	list = append(list,
		slog.Int("status", x.status), slog.Int64("bytes",
			x.bytes), slog.Duration("duration", time.Since(x.began).Round(time.Microsecond)))
	if x.peer.IsValid() {
		list = append(list, slog.String("peer", x.peer.String()))
	}
	if v := x.verdict; v != nil {
		policy := x.policy
		if result := v.Decisive(); policy == "" && result != nil {
			policy = result.Rule.Name()
		}
		list = append(list,
			slog.String("tier", v.Tier), slog.String("policy",
				policy), slog.String("route", v.Route), slog.Bool("limited", x.limited))
		if key := v.Decision.Key(); key != "" {
			list = append(list, slog.String("key", label.Short(key)))
		}
		if x.limited {
			list = append(list, slog.Any("retry_after", label.Wait(v.Decision.RetryAfter)))
		}
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

// loggable returns s in a form that is safe to log: printable ASCII on one line. Before it escapes
// s, it cuts s to the given number of bytes.
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
