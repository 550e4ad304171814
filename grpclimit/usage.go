package grpclimit

import (
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"google.golang.org/grpc/metadata"
)

// withUsage adds to a trailer how much of its limit is used, if the server shows it: see
// [WithUsage].
func (c *call) withUsage(trailer metadata.MD) metadata.MD {
	if !c.server.usage {
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
	if state.Limit.Algorithm != stint.AlgorithmConcurrency { // nobody knows when a place is free
		reset := (state.ResetAfter + time.Second - 1) / time.Second
		usage.Set("ratelimit-reset", strconv.FormatInt(int64(reset), 10))
	}
	return metadata.Join(trailer, usage)
}
