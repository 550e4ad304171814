package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"
)

// Metadata of [WithUsage].
const (
	limitKey     = "ratelimit-limit"
	remainingKey = "ratelimit-remaining"
	resetKey     = "ratelimit-reset"
)

// withUsage adds to a trailer what the server tells about limits, if it does.
func (c *call) withUsage(trailer metadata.MD) metadata.MD {
	if !c.server.usage {
		return trailer
	}
	rule, state := c.verdict.Decisive()
	if rule == nil {
		return trailer
	}
	reset := (state.ResetAfter + time.Second - 1) / time.Second
	return metadata.Join(trailer, metadata.MD{
		limitKey:     {strconv.FormatInt(state.Limit.Max, 10)},
		remainingKey: {strconv.FormatInt(state.Remaining(), 10)},
		resetKey:     {strconv.FormatInt(int64(reset), 10)},
	})
}
