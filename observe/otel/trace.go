package otelstint

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Attributes of spans. None of them says who is asking: spans go to places where subjects have no business.
const (
	Outcome      = attribute.Key("stint.outcome") // "allowed", "denied" or "failed"
	Tier         = attribute.Key("stint.tier")
	Policy       = attribute.Key("stint.policy")         // that decided, or the tier's own limits: ""
	Limit        = attribute.Key("stint.limit")          // that mattered most, such as "10/1m"
	Remaining    = attribute.Key("stint.remaining")      // of that limit
	RetryAfterMS = attribute.Key("stint.retry_after_ms") // of a denial; -1 is never
	Degraded     = attribute.Key("stint.degraded")       // that it was decided without the store
)

// Trace returns an observer for guards that describes every decision on the span of the request's context, if that is
// recording. A request that is decided on more than once has the last decision's attributes. Use it beside a monitor
// with [policy.Observers].
func Trace() policy.Observer { return tracer{} }

type tracer struct{}

// Judged implements [policy.Observer].
func (tracer) Judged(ctx context.Context, v *policy.Verdict, _ time.Duration, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	d := &v.Decision
	name := v.Route
	if v.Skipped != "" {
		name = v.Skipped
	}
	attributes := append(make([]attribute.KeyValue, 0, 7), Tier.String(v.Tier))
	rule, state := v.Decisive()
	switch {
	case err != nil:
		span.SetAttributes(append(attributes, Outcome.String("failed"), Policy.String(name))...)
		return
	case d.Allowed:
		attributes = append(attributes, Outcome.String("allowed"))
	default:
		attributes = append(attributes, Outcome.String("denied"), RetryAfterMS.Int64(retryAfter(d.RetryAfter)))
	}
	if rule != nil && !d.Banned && !d.Unavailable {
		name = rule.Policy
		attributes = append(attributes, Limit.String(state.Limit.String()), Remaining.Int64(state.Remaining()))
	}
	span.SetAttributes(append(attributes, Policy.String(name), Degraded.Bool(d.Degraded))...)
}

// Unsettled implements [policy.Observer]. It does nothing: the span of the request may have ended.
func (tracer) Unsettled(context.Context, *policy.Verdict, policy.Settlement) {}

// retryAfter is a wait in milliseconds, rounded up.
func retryAfter(wait time.Duration) int64 {
	if wait == stint.Never {
		return -1
	}
	return int64((wait + time.Millisecond - 1) / time.Millisecond)
}
