package otelstint

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Trace returns an observer for guards. The observer describes every decision in attributes of the
// span in the request's context, if the span is recording. It passes every event to next, which may
// be nil. If there are several decisions under one span, later ones overwrite the attributes of
// earlier ones.
//
// The attributes are
//
//	stint.outcome         "allowed", "denied" or "failed"
//	stint.tier            the request's tier
//	stint.policy          the policy that decided, or "" for the tier's own limits
//	stint.limit           the decisive limit, such as "10/1m"
//	stint.remaining       the remaining units of that limit
//	stint.retry_after_ms  the wait after a denial; -1 means never
//	stint.degraded        whether the decision was made without the store
//
// No attribute identifies the subject, because spans are sent to systems that must not see
// subjects.
func Trace(next stint.Observer) stint.Observer { return tracer{next} }

type tracer struct{ next stint.Observer }

// Observe implements [stint.Observer].
func (t tracer) Observe(ctx context.Context, event stint.Event) {
	if v, ok := event.(*policy.Verdict); ok {
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.SetAttributes(attributesOf(v)...)
		}
	}
	if t.next != nil {
		t.next.Observe(ctx, event)
	}
}

func attributesOf(v *policy.Verdict) []attribute.KeyValue {
	d, name, outcome := &v.Decision, cmp.Or(v.Skipped, v.Route), "allowed"
	attributes := append(make([]attribute.KeyValue, 0, 7), attribute.String("stint.tier", v.Tier))
	switch {
	case v.Err != nil:
		return append(attributes, attribute.String("stint.outcome", "failed"), attribute.String("stint.policy", name))
	case !d.Allowed:
		outcome = "denied"
		attributes = append(attributes, attribute.Int64("stint.retry_after_ms", retryAfter(d.RetryAfter)))
	}
	if result := v.Decisive(); result != nil && !d.Banned && !d.Unavailable {
		name = result.Rule.Policy
		state := result.Decisive()
		attributes = append(attributes, attribute.String("stint.limit", state.Limit.String()),
			attribute.Int64("stint.remaining", state.Remaining()))
	}
	return append(attributes, attribute.String("stint.outcome", outcome), attribute.String("stint.policy", name),
		attribute.Bool("stint.degraded", d.Degraded))
}

// retryAfter returns a wait in milliseconds, rounded up, or -1 for [stint.Never].
func retryAfter(wait time.Duration) int64 {
	if wait == stint.Never {
		return -1
	}
	return int64((wait + time.Millisecond - 1) / time.Millisecond)
}
