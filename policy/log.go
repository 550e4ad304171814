package policy

import (
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// guardLog tells of what people on call want to know, and of no more than a few of each kind a second. What comes
// from a request is shortened and quoted.
type guardLog struct {
	logger                              *slog.Logger
	denials, shadows, failures, strange sampler
}

func (l *guardLog) denied(v *Verdict) {
	if l.denials.busy() {
		return
	}
	dropped, ok := l.denials.take()
	if !ok {
		return
	}
	rule, state := v.Decisive()
	name := v.Tier
	if rule != nil {
		name = rule.Name()
	}
	args := []any{
		"policy", name, "tier", v.Tier, "key", shorten(v.Decision.Key()),
		"limit", state.Limit.String(), "retry_after", v.Decision.RetryAfter.String(),
	}
	if v.Decision.Banned {
		args = append(args, "banned", true)
	}
	if v.Decision.Degraded {
		args = append(args, "degraded", true)
	}
	l.logger.Warn("stint: denied", append(args, "unlogged", dropped)...)
}

// shadowed tells of requests that were let through although rules in shadow would have denied them.
func (l *guardLog) shadowed(v *Verdict) {
	if dropped, ok := l.shadows.take(); ok {
		l.logger.Warn("stint: would be denied, but for shadow", "policy", v.Shadowed[0].Name(), "tier", v.Tier,
			"key", shorten(v.Decision.Key()), "unlogged", dropped)
	}
}

func (l *guardLog) failed(what string, err error) {
	if dropped, ok := l.failures.take(); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", dropped)
	}
}

func (l *guardLog) unknownClient() {
	if dropped, ok := l.strange.take(); ok {
		l.logger.Error(`stint: requests come from a peer without an address and share the subject "ip:unknown"; `+
			`if it is a proxy on a Unix socket, add "unix" to client_ip.trusted_proxies`, "unlogged", dropped)
	}
}

// shorten makes a key fit to be logged: on one line, and with the beginning of the identifier only.
func shorten(key string) string {
	const most = 6
	kind, identifier, ok := strings.Cut(key, ":")
	if !ok {
		kind, identifier = "", key
	} else {
		kind += ":"
	}
	// A scope is a name from the configuration, unless it is divided by parts of the request.
	if len(identifier) > most {
		identifier = strings.ToValidUTF8(identifier[:most], "") + "…"
	}
	quoted := strconv.Quote(kind + identifier)
	return quoted[1 : len(quoted)-1]
}

// sampler lets a few through every second and counts the rest. Around the change of a second it may let through
// a few more.
type sampler struct{ second, taken, dropped atomic.Int64 }

const (
	samplesPerSecond = 5
	// clockEvery is how many are dropped between two looks at the clock, which costs more than all else here.
	clockEvery = 16
)

// busy drops most of what comes after enough were let through, without a look at the clock. It is for what may come
// thousands of times a second, and never for what is rare.
func (s *sampler) busy() bool {
	if s.taken.Load() <= samplesPerSecond || s.dropped.Load()%clockEvery == clockEvery-1 {
		return false
	}
	s.dropped.Add(1)
	return true
}

// take reports whether to go ahead, and how many were not let through since the last one that was.
func (s *sampler) take() (dropped int64, ok bool) {
	if now := time.Now().Unix(); s.second.Load() != now && s.second.Swap(now) != now {
		s.taken.Store(0)
	}
	if s.taken.Add(1) > samplesPerSecond {
		s.dropped.Add(1)
		return 0, false
	}
	return s.dropped.Swap(0), true
}
