package grpclimit

import (
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"google.golang.org/grpc/metadata"
)

// Metadata of [WithUsage].
const (
	limitKey     = "ratelimit-limit"
	remainingKey = "ratelimit-remaining"
	resetKey     = "ratelimit-reset"
)

// withUsage adds to a trailer how much of its limit is used, if the server shows it.
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
		limitKey:     {strconv.FormatInt(state.Limit.Max, 10)},
		remainingKey: {strconv.FormatInt(state.Remaining(), 10)},
	}
	if state.Limit.Algorithm != stint.AlgorithmConcurrency { // nobody knows when a place is free
		reset := (state.ResetAfter + time.Second - 1) / time.Second
		usage.Set(resetKey, strconv.FormatInt(int64(reset), 10))
	}
	return metadata.Join(trailer, usage)
}
