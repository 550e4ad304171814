package policy

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/seldom"
)

// aFew of each kind are logged a second, which shows whether they are alike.
const aFew = 5

// guardLog tells of what people on call want to know, and of no more than a few of each kind a second. What comes
// from a request is shortened and quoted.
type guardLog struct {
	logger                              *slog.Logger
	denials, shadows, failures, strange seldom.Gate
}

func (l *guardLog) denied(v *Verdict) {
	unlogged, ok := l.denials.Sample(aFew, time.Second)
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
	l.logger.Warn("stint: denied", append(args, "unlogged", unlogged)...)
}

// shadowed tells of requests that were let through although rules in shadow would have denied them.
func (l *guardLog) shadowed(v *Verdict) {
	if unlogged, ok := l.shadows.Take(aFew, time.Second); ok {
		l.logger.Warn("stint: would be denied, but for shadow", "policy", v.Shadowed[0].Name(), "tier", v.Tier,
			"key", shorten(v.Decision.Key()), "unlogged", unlogged)
	}
}

func (l *guardLog) failed(what string, err error) {
	if unlogged, ok := l.failures.Take(aFew, time.Second); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", unlogged)
	}
}

func (l *guardLog) unknownClient() {
	if unlogged, ok := l.strange.Take(aFew, time.Second); ok {
		l.logger.Error(`stint: requests come from a peer without an address and share the subject "ip:unknown"; `+
			`if it is a proxy on a Unix socket, add "unix" to client_ip.trusted_proxies`, "unlogged", unlogged)
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
