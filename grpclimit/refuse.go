package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// pushbackKey is the key of the trailer in which a server tells gRPC's retry policies when to
// retry.
const pushbackKey = "grpc-retry-pushback-ms"

// outageRetry is the time that clients are told to wait when the store has failed.
const outageRetry = time.Second

// refusal describes why a call is refused, and when to retry it. It contains nothing from the call.
type refusal struct {
	code   codes.Code
	reason string
	wait   time.Duration // wait before a retry, or stint.Never
	quota  *errdetails.QuotaFailure
	help   *errdetails.Help
}

func unavailable() refusal {
	return refusal{code: codes.Unavailable, reason: "rate limits cannot be checked", wait: outageRetry}
}

func (c *call) denied() refusal {
	v := c.verdict
	r := refusal{code: codes.ResourceExhausted, reason: "rate limited", wait: stint.Never}
	if v.Decision.RetryAfter != stint.Never {
		var headers policy.Headers
		if v.Set != nil {
			headers = v.Set.Spec().Headers
		}
		r.wait = middleware.RetryAfter(v, headers.Jitter, time.Millisecond, c.server.random)
	}
	result := v.Decisive()
	if result != nil {
		r.help = helpAt(result.Rule.Contact)
	}
	if v.Decision.Banned {
		r.reason = "banned"
		return r
	}
	if result != nil {
		kind, name := kindAndName(result.Rule)
		r.reason += " by " + kind + " " + name
	}
	r.quota = &errdetails.QuotaFailure{Violations: violations(v)}
	return r
}

// helpAt returns a link to a contact, or nil if there is none. The link has no URL if the contact
// is text.
func helpAt(contact string) *errdetails.Help {
	if contact == "" {
		return nil
	}
	link := &errdetails.Help_Link{Description: contact}
	if syntax.IsContactURL(contact) {
		link.Description, link.Url = "Contact", contact
	}
	return &errdetails.Help{Links: []*errdetails.Help_Link{link}}
}

func violations(v *policy.Verdict) []*errdetails.QuotaFailure_Violation {
	var list []*errdetails.QuotaFailure_Violation
	for i := range v.Results {
		r := &v.Results[i]
		if !r.Denied {
			continue
		}
		kind, name := kindAndName(r.Rule)
		for k, usage := range r.Usages {
			if usage.RetryAfter != 0 {
				list = append(list, &errdetails.QuotaFailure_Violation{
					Subject:     kind + ":" + name,
					Description: r.Limits[k].String(),
				})
			}
		}
	}
	return list
}

func kindAndName(rule *policy.Rule) (kind, name string) {
	if rule.Policy != "" {
		return "policy", rule.Policy
	}
	return "tier", rule.Tier
}

// refuse returns the trailer and the error of a call that is refused for the reason r.
func (c *call) refuse(r refusal) (metadata.MD, error) {
	message, pushback := r.reason+", retrying does not help", "-1"
	var details []protoadapt.MessageV1
	if r.wait != stint.Never {
		message = r.reason + ", retry in " + r.wait.String()
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.wait)})
		// If the wait ends after the call's deadline, the client must not retry: it would only wait
		// until the deadline, and then report that the deadline was exceeded.
		if deadline, ok := c.ctx.Deadline(); !ok || r.wait < time.Until(deadline) {
			pushback = strconv.FormatInt(r.wait.Milliseconds(), 10)
		}
	}
	if r.quota != nil {
		details = append(details, r.quota)
	}
	if r.help != nil {
		details = append(details, r.help)
	}
	st := withDetails(status.New(r.code, message), details...)
	return c.withUsage(metadata.Pairs(pushbackKey, pushback), r.wait), st.Err()
}

// withDetails returns st with the details added. st must not be OK.
func withDetails(st *status.Status, details ...protoadapt.MessageV1) *status.Status {
	detailed, err := st.WithDetails(details...)
	if err != nil {
		return st
	}
	return detailed
}

// withUsage returns the trailer. If [WithTrailer] is set, the state of the decisive limit is added.
// For a denied call, wait is the time until the limit has room, or [stint.Never]; for an allowed
// call, it is 0.
func (c *call) withUsage(trailer metadata.MD, wait time.Duration) metadata.MD {
	if !c.server.trailer {
		return trailer
	}
	result := c.verdict.Decisive()
	if result == nil {
		return trailer
	}
	state := result.Decisive()
	usage := metadata.MD{
		"ratelimit-limit":     {strconv.FormatInt(state.Limit.Max, 10)},
		"ratelimit-remaining": {strconv.FormatInt(state.Remaining(), 10)},
	}
	if wait == 0 {
		wait = state.ResetAfter
	}
	// The reset time is unknown for a concurrency limit, and if waiting does not help.
	if state.Limit.Algorithm != stint.AlgorithmConcurrency && wait != stint.Never {
		reset := (wait + time.Second - 1) / time.Second
		usage.Set("ratelimit-reset", strconv.FormatInt(int64(reset), 10))
	}
	return metadata.Join(trailer, usage)
}
