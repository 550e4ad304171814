package policy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
)

// guardLog logs events for operators. It limits the number of lines of each kind per second. It
// shortens and quotes text that comes from requests.
type guardLog struct {
	logger                                                            *slog.Logger
	admissions, denials, shadows, failures, strange, odd, corrections logsample.Sampler
}

func (l *guardLog) decided(ctx context.Context, v *Verdict, s *Spec) {
	switch {
	case v.Err != nil:
		l.undecided(ctx, v)
	case !v.Decision.Allowed:
		l.denied(v, s.LogDenials)
	case v.shadowed() != nil:
		l.shadowed(v)
	default:
		l.admitted(ctx, v, s.LogAdmissions)
	}
}

// perSecond returns the maximum number of requests to log per second; see [Spec.LogAdmissions].
func perSecond(most *int) int {
	if most == nil {
		return logsample.Few
	}
	return *most
}

func (l *guardLog) admitted(ctx context.Context, v *Verdict, most *int) {
	level := slog.LevelInfo
	if most == nil {
		level = slog.LevelDebug
	}
	if !l.logger.Enabled(ctx, level) {
		return
	}
	unlogged, ok := l.admissions.Sample(perSecond(most), time.Second)
	if !ok {
		return
	}
	result := v.Decisive()
	if result == nil {
		l.logger.Log(ctx, level, "stint: allowed", "tier", v.Tier, "skipped", v.Skipped, "unlogged", unlogged)
		return
	}
	state := result.Decisive()
	l.logger.Log(ctx, level, "stint: allowed", "policy", result.Rule.Name(), "tier", v.Tier, "key",
		v.shortKey(),
		"limit", state.Limit.String(), "used", state.Used, "remaining", state.Remaining(), "unlogged", unlogged)
}

func (l *guardLog) denied(v *Verdict, most *int) {
	unlogged, ok := l.denials.Sample(perSecond(most), time.Second)
	if !ok {
		return
	}
	name, limit := v.Tier, ""
	if result := v.Decisive(); result != nil {
		name, limit = result.Rule.Name(), result.Decisive().Limit.String()
	}
	args := []any{
		"policy", name, "tier", v.Tier, "key", v.shortKey(),
		"limit", limit, "retry_after", label.Wait(v.Decision.RetryAfter), "denial", string(v.AppendDenialID(nil)),
	}
	if v.Decision.Banned {
		args = append(args, "banned", true)
	}
	if v.Decision.Degraded {
		args = append(args, "degraded", true)
	}
	if v.Decision.Unavailable {
		args = append(args, "unavailable", true)
	}
	l.logger.Warn("stint: denied", append(args, "unlogged", unlogged)...)
}

// shadowed logs a request that is allowed although a rule in shadow would have denied it.
func (l *guardLog) shadowed(v *Verdict) {
	if unlogged, ok := l.shadows.Allow(logsample.Few, time.Second); ok {
		l.logger.Warn("stint: would be denied if enforced (shadow)", "policy", v.shadowed().Rule.Name(), "tier", v.Tier,
			"key", v.shortKey(), "unlogged", unlogged)
	}
}

func (v *Verdict) shortKey() string {
	if r := v.about(); r != nil {
		return label.Short(r.Key())
	}
	return ""
}

// undecided logs a request that the store could not decide, with the first rule that the store was
// asked about. It logs nothing if the caller has canceled the request.
func (l *guardLog) undecided(ctx context.Context, v *Verdict) {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(v.Err, context.Canceled) {
		return
	}
	unlogged, ok := l.failures.Allow(logsample.Few, time.Second)
	if !ok {
		return
	}
	args := []any{"cause", v.Err, "tier", v.Tier}
	if v.enforced > 0 {
		r := &v.Results[0]
		args = append(args, "policy", r.Rule.Name(), "key", label.Short(r.Key()), "limit", label.List(r.Limits))
	}
	l.logger.Error("stint: a request could not be decided", append(args, "unlogged", unlogged)...)
}

func (l *guardLog) failed(what string, err error) {
	if unlogged, ok := l.failures.Allow(logsample.Few, time.Second); ok {
		l.logger.Error("stint: "+what, "cause", err, "unlogged", unlogged)
	}
}

// unsettled logs a refund or settlement that was not applied, or not completely. It logs the cause
// if the store failed; see [Settlement.Err].
func (l *guardLog) unsettled(c *stint.Charge, s *Settlement) {
	unlogged, ok := l.corrections.Allow(logsample.Few, time.Second)
	if !ok {
		return
	}
	what := "a settlement"
	if s.Refund {
		what = "a refund"
	}
	charged := s.Verdict.Cost
	if s.Amended.Changed {
		charged = s.Amended.Charged
	}
	args := []any{"tier", s.Verdict.Tier, "key", label.Short(c.Claims()[0].Key()), "charged", charged, "cost", s.Cost}
	if s.Rule != nil {
		args = append(args, "policy", s.Rule.Name())
	}
	if s.Err != nil {
		l.logger.Error("stint: "+what+" failed", append(args, "cause", s.Err, "unlogged", unlogged)...)
		return
	}
	how := " was not applied"
	if s.Amended.Changed {
		how = " was charged only in part: its debt would be too large"
	}
	l.logger.Warn("stint: "+what+how, append(args, "unlogged", unlogged)...)
}

func (l *guardLog) unknownClient() {
	if unlogged, ok := l.strange.Allow(logsample.Few, time.Second); ok {
		l.logger.Error(`stint: requests come from a peer without an address and share the subject "ip:unknown"; `+
			`if it is a proxy on a Unix socket, add "unix" to client_ip.trusted_proxies`, "unlogged", unlogged)
	}
}

// oddClaim logs a warning if the request has a claim whose value is not a valid maximum for its
// limit.
func (l *guardLog) oddClaim(f *facts) {
	limit := f.odd.limit
	if limit == nil {
		return
	}
	if unlogged, ok := l.odd.Allow(logsample.Few, time.Second); ok {
		n, wrong := limit.number(f.odd.value)
		l.logger.Warn("stint: a claim has no valid number for its limit: it is "+wrong, "claim", limit.Claim,
			"value", label.Short(f.odd.value), "max", limit.Max, "applied", limit.with(n).String(),
			"unlogged", unlogged)
	}
}
