package stint

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
)

// WithLogger makes the limiter log its decisions: failures of the store at ERROR with the cause,
// denials at WARN with the time to wait, settlements that are not charged in full at WARN, and
// admissions at DEBUG. Each record contains the limit and the shortened key. At most five records
// of each kind are logged per second. By default the limiter logs nothing, because callers get the
// decision and the error.
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(l *Limiter) { l.log = &limiterLog{logger: cmp.Or(logger, slog.Default())} })
}

// limiterLog logs the decisions of a limiter. A nil limiterLog logs nothing.
type limiterLog struct {
	logger                              *slog.Logger
	admissions, denials, failures, cuts logsample.Sampler
}

// decided logs a decision, or the failure to make one. For a peek, it logs only a failure.
func (l *limiterLog) decided(ctx context.Context, c *Claim, mode Mode, d *Decision, err error) {
	switch {
	case l == nil:
	case err != nil:
		l.failed(ctx, "a request could not be decided", c, err)
	case mode != ModePeek:
		l.record(ctx, d)
	}
}

// failed logs a failure of the store, with "stint: "+what as the message. It logs nothing if err is
// nil, a mistake of the caller or a cancellation.
func (l *limiterLog) failed(ctx context.Context, what string, c *Claim, err error) {
	if l == nil || err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if _, invalid := errors.AsType[*InvalidError](err); invalid {
		return
	}
	if unlogged, ok := l.failures.Allow(logsample.Few, time.Second); ok {
		l.logger.ErrorContext(ctx, "stint: "+what, "cause", err,
			"key", label.Short(c.Key()), "limit", label.List(c.Limits), "unlogged", unlogged)
	}
}

func (l *limiterLog) cut(ctx context.Context, c *Claim, cost, charged int64) {
	if l == nil {
		return
	}
	if unlogged, ok := l.cuts.Allow(logsample.Few, time.Second); ok {
		l.logger.WarnContext(ctx, "stint: a part of a settlement is not charged: its debt would be too large",
			"cost", cost, "charged", charged, "key", label.Short(c.Key()), "limit", label.List(c.Limits),
			"unlogged", unlogged)
	}
}

func (l *limiterLog) record(ctx context.Context, d *Decision) {
	level, message, sampler := slog.LevelWarn, "stint: denied", &l.denials
	if d.Allowed {
		level, message, sampler = slog.LevelDebug, "stint: allowed", &l.admissions
	}
	if !l.logger.Enabled(ctx, level) {
		return
	}
	unlogged, ok := sampler.Sample(logsample.Few, time.Second)
	if !ok {
		return
	}
	s := d.Decisive()
	args := []any{"key", label.Short(d.Key()), "limit", s.Limit.String()}
	if d.Allowed {
		args = append(args, "used", s.Used, "remaining", s.Remaining())
	} else {
		args = append(args, "retry_after", label.Wait(d.RetryAfter))
	}
	if d.Banned {
		args = append(args, "banned", true)
	}
	if d.Degraded {
		args = append(args, "degraded", true)
	}
	if d.Unavailable {
		args = append(args, "unavailable", true)
	}
	l.logger.Log(ctx, level, message, append(args, "unlogged", unlogged)...)
}
