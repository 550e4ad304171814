package envoyrls

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/denialid"
)

// answer is a response with memory for its parts. If the request has at most fewItems descriptors,
// the whole answer is a single allocation.
type answer struct {
	response rlsv3.RateLimitResponse
	pointers [fewItems]*rlsv3.RateLimitResponse_DescriptorStatus
	statuses [fewItems]rlsv3.RateLimitResponse_DescriptorStatus
	resets   [fewItems]durationpb.Duration
	headers  addedHeaders
}

func (it *item) remaining() uint32 { return uint32(max(it.rule.max()-it.usage.Used, 0)) }

const fewItems = 2

func (s *Service) answer(c *call, r *rlsv3.RateLimitRequest, a *answer) {
	pointers, statuses, resets := a.pointers[:], a.statuses[:], a.resets[:]
	if n := len(c.items); n > fewItems {
		pointers = make([]*rlsv3.RateLimitResponse_DescriptorStatus, n)
		statuses = make([]rlsv3.RateLimitResponse_DescriptorStatus, n)
		resets = make([]durationpb.Duration, n)
	}
	for i := range c.items {
		c.items[i].status(&statuses[i], &resets[i])
		pointers[i] = &statuses[i]
	}
	a.response.Statuses = pointers[:len(c.items):len(c.items)]
	denied := c.denied()
	a.response.OverallCode = rlsv3.RateLimitResponse_OK
	if denied && !s.options.ShadowMode {
		a.response.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	if s.options.Headers != HeadersNone {
		s.addHeaders(a, c, denied)
	}
	if s.options.Metadata {
		a.response.DynamicMetadata = c.dynamicMetadata(r)
	}
}

func (it *item) status(to *rlsv3.RateLimitResponse_DescriptorStatus, reset *durationpb.Duration) {
	to.Code = it.code()
	switch {
	case it.counted():
		to.CurrentLimit = it.rule.current
		to.LimitRemaining = it.remaining()
		reset.Seconds = it.resetSeconds()
		to.DurationUntilReset = reset
	case it.rule != nil:
		to.LimitRemaining = math.MaxUint32
	}
}

// resetSeconds returns the time until the limit is unused, in whole seconds, as
// envoyproxy/ratelimit does. For an unused limit of zero, it returns a whole window.
func (it *item) resetSeconds() int64 {
	reset := it.usage.ResetAfter
	if reset <= 0 && it.rule.max() == 0 {
		reset = it.window()
	}
	return wholeSeconds(reset)
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

type addedHeaders struct {
	pointers [maxHeaders]*corev3.HeaderValue
	values   [maxHeaders]corev3.HeaderValue
}

const maxHeaders = 8

func (h *addedHeaders) set(i int, key, value string) {
	h.values[i].Key, h.values[i].Value = key, value
	h.pointers[i] = &h.values[i]
}

func (s *Service) addHeaders(to *answer, c *call, denied bool) {
	it := c.decisive()
	if it == nil {
		return
	}
	retry := int64(0)
	if denied {
		retry = c.retrySeconds()
	}
	// The numbers are slices of one string, to save allocations.
	var room [48]byte
	b := strconv.AppendUint(room[:0], uint64(it.remaining()), 10)
	remainingEnd := len(b)
	b = strconv.AppendInt(b, it.resetSeconds(), 10)
	resetEnd := len(b)
	b = strconv.AppendInt(b, retry, 10)
	text := string(b)
	remaining, reset := text[:remainingEnd], text[remainingEnd:resetEnd]

	h, names := &to.headers, &s.options.HeaderNames
	h.set(0, names.Limit, it.rule.text)
	h.set(1, names.Remaining, remaining)
	h.set(2, names.Reset, reset)
	n := 3
	if s.options.Headers == HeadersAll {
		h.set(3, "X-RateLimit-Limit", it.rule.text)
		h.set(4, "X-RateLimit-Remaining", remaining)
		h.set(5, "X-RateLimit-Reset", reset)
		n = 6
		if retry > 0 {
			h.set(n, "Retry-After", text[resetEnd:])
			n++
		}
		if denied && s.options.Observer != nil {
			h.set(n, "X-RateLimit-Denial", denialid.New(time.Now(), it.subject).String())
			n++
		}
	}
	to.response.ResponseHeadersToAdd = h.pointers[:n:n]
}

// decisive returns the last item that exceeds its limit and is not in quota mode. If there is none,
// it returns the first of the items with the fewest remaining hits, or nil if no item has a limit.
func (c *call) decisive() *item {
	var best *item
	least := uint32(math.MaxUint32)
	for i := range c.items {
		it := &c.items[i]
		if !it.counted() {
			continue
		}
		if left := it.remaining(); left < least || best == nil {
			best, least = it, left
		}
		if !it.quota && it.code() == rlsv3.RateLimitResponse_OVER_LIMIT {
			best, least = it, 0
		}
	}
	return best
}

// retrySeconds returns how long the caller of a denied request must wait, or zero if waiting does
// not help. After that time, all limits that deny the request have room; of the limits in quota
// mode, only one needs room.
func (c *call) retrySeconds() int64 {
	longest, shortest := time.Duration(0), stint.Never
	for i := range c.items {
		it := &c.items[i]
		if it.code() != rlsv3.RateLimitResponse_OVER_LIMIT {
			continue
		}
		if it.quota {
			shortest = min(shortest, it.retryAfter())
		} else {
			longest = max(longest, it.retryAfter())
		}
	}
	if c.quotasDeny() {
		longest = max(longest, shortest)
	}
	if longest == stint.Never {
		return 0
	}
	return wholeSeconds(longest)
}

func (it *item) retryAfter() time.Duration {
	switch {
	case it.neverFits() || it.rule.max() == 0:
		return stint.Never
	case it.usage.RetryAfter == 0: // the item only peeked
		return it.usage.ResetAfter
	}
	return it.usage.RetryAfter
}
