package grpclimit

import (
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// pushbackKey is the trailer by which a server tells gRPC's retry policies when to come back.
const pushbackKey = "grpc-retry-pushback-ms"

// outageRetry is after how long to try again what only a store that is back can decide.
const outageRetry = time.Second

// refusal is why a call is not let through. Nothing in it comes from the call.
type refusal struct {
	code   codes.Code
	reason string
	wait   time.Duration // or stint.Never
	quota  *errdetails.QuotaFailure
}

func unavailable() refusal {
	return refusal{code: codes.Unavailable, reason: "rate limits cannot be checked", wait: outageRetry}
}

func denied(v *policy.Verdict) refusal {
	r := refusal{code: codes.ResourceExhausted, reason: "rate limited", wait: v.Decision.RetryAfter}
	if v.Decision.Banned {
		r.reason = "banned"
		return r
	}
	if rule, _ := v.Decisive(); rule != nil {
		kind, name := kindAndName(rule)
		r.reason += " by " + kind + " " + name
	}
	r.quota = &errdetails.QuotaFailure{Violations: violations(v)}
	return r
}

// violations returns the limits that have no room for the call.
func violations(v *policy.Verdict) []*errdetails.QuotaFailure_Violation {
	var list []*errdetails.QuotaFailure_Violation
	usages := v.Decision.Usages()
	for _, rule := range v.Rules() {
		n := min(len(rule.Limits), len(usages))
		for i, usage := range usages[:n] {
			if usage.RetryAfter != 0 {
				kind, name := kindAndName(rule)
				list = append(list, &errdetails.QuotaFailure_Violation{
					Subject:     kind + ":" + name,
					Description: rule.Limits[i].String(),
				})
			}
		}
		usages = usages[n:]
	}
	return list
}

func kindAndName(rule *policy.Rule) (kind, name string) {
	if rule.Policy != "" {
		return "policy", rule.Policy
	}
	return "tier", rule.Tier
}

// refuse returns the status of a call that is not let through, and its trailer.
func (c *call) refuse(r refusal) (metadata.MD, error) {
	message, pushback := r.reason+", retrying does not help", "-1"
	var details []protoadapt.MessageV1
	if r.wait != stint.Never {
		wait := c.verdict.Set().Headers().Spread(r.wait, time.Millisecond, c.server.random())
		message = r.reason + ", retry in " + wait.String()
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		// One who is told to wait for longer than the call has left would wait for nothing, and learn only that
		// time ran out.
		if deadline, ok := c.ctx.Deadline(); !ok || wait < time.Until(deadline) {
			pushback = strconv.FormatInt(wait.Milliseconds(), 10)
		}
	}
	if r.quota != nil {
		details = append(details, r.quota)
	}
	st := status.New(r.code, message)
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return c.withUsage(metadata.Pairs(pushbackKey, pushback)), st.Err()
}
