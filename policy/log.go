package policy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/seldom"
)

// aFew of each kind are logged a second, which shows whether they are alike.
const aFew = 5

// guardLog tells of what people on call want to know, and of no more than a few of each kind a second. What comes
// from a request is shortened and quoted.
type guardLog struct {
	logger                                                       *slog.Logger
	admissions, denials, shadows, failures, strange, corrections seldom.Gate
}

// admitted tells of requests that are allowed, if anybody wants to know of so many.
func (l *guardLog) admitted(ctx context.Context, v *Verdict) {
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	unlogged, ok := l.admissions.Sample(aFew, time.Second)
	if !ok {
		return
	}
	rule, state := v.Decisive()
	if rule == nil {
		l.logger.Debug("stint: allowed", "tier", v.Tier, "skipped", v.Skipped, "unlogged", unlogged)
		return
	}
	l.logger.Debug("stint: allowed", "policy", rule.Name(), "tier", v.Tier, "key", label.Short(v.Decision.Key()),
		"limit", state.Limit.String(), "used", state.Used, "remaining", state.Remaining(), "unlogged", unlogged)
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
		"policy", name, "tier", v.Tier, "key", label.Short(v.Decision.Key()),
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
			"key", label.Short(v.Decision.Key()), "unlogged", unlogged)
	}
}

// undecided tells of a request that the store has not decided, and what was asked; but not if who asked has gone away.
func (l *guardLog) undecided(ctx context.Context, v *Verdict, r *stint.Request, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	unlogged, ok := l.failures.Take(aFew, time.Second)
	if !ok {
		return
	}
	args := []any{"cause", err, "tier", v.Tier}
	if len(v.rules) > 0 {
		args = append(args, "policy", v.rules[0].Name(), "key", label.Short(r.Key()), "limits", v.rules[0].Limits)
	}
	l.logger.Error("stint: a request could not be decided", append(args, "unlogged", unlogged)...)
}

func (l *guardLog) failed(what string, err error) {
	if unlogged, ok := l.failures.Take(aFew, time.Second); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", unlogged)
	}
}

// unsettled tells of a refund or settlement that was not applied, and why if the store failed. Otherwise there was nothing to
// correct: the charge has left its windows, was reset or corrected before, or is a refund of a request that was repeated.
func (l *guardLog) unsettled(v *Verdict, c *stint.Charge, s *Settlement) {
	unlogged, ok := l.corrections.Take(aFew, time.Second)
	if !ok {
		return
	}
	what := "a settlement"
	if s.Refund {
		what = "a refund"
	}
	args := []any{"tier", v.Tier, "key", label.Short(c.Claim.Key()), "charged", v.Cost, "cost", s.Cost}
	if s.Rule != nil {
		args = append(args, "policy", s.Rule.Name())
	}
	if s.Err != nil {
		l.logger.Error("stint: "+what+" failed", append(args, "cause", s.Err, "unlogged", unlogged)...)
		return
	}
	l.logger.Warn("stint: "+what+" was not applied", append(args, "unlogged", unlogged)...)
}

func (l *guardLog) unknownClient() {
	if unlogged, ok := l.strange.Take(aFew, time.Second); ok {
		l.logger.Error(`stint: requests come from a peer without an address and share the subject "ip:unknown"; `+
			`if it is a proxy on a Unix socket, add "unix" to client_ip.trusted_proxies`, "unlogged", unlogged)
	}
}
