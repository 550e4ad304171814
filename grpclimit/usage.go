package grpclimit

import (
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"google.golang.org/grpc/metadata"
)

// withUsage adds the state of the decisive limit to a trailer, if [WithTrailer] is set. wait is the
// time until the limit has room for a denied call, or [stint.Never]; 0 if the call is allowed.
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
	if state.Limit.Algorithm != stint.AlgorithmConcurrency && wait != stint.Never { // otherwise the time is unknown
		reset := (wait + time.Second - 1) / time.Second
		usage.Set("ratelimit-reset", strconv.FormatInt(int64(reset), 10))
	}
	return metadata.Join(trailer, usage)
}
