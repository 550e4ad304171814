package envoyrls

import (
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// call is the state of a request while it is decided. It is then reused for another request.
type call struct {
	items []item
	heads []int
	// deadline is the time by which the request must be answered, however many calls to the store
	// it needs.
	deadline time.Time
	// verdict is a buffer for the verdicts that are sent to the observer, one for each descriptor.
	// usage is a buffer for their usages.
	verdict policy.Verdict
	usage   [1]stint.Usage
	claims  []stint.Claim
	// subject and composite are buffers for strings under construction.
	subject, composite []byte

	// room is the memory that items, heads, subject and composite use at first, so that a call
	// needs a single allocation. It is large enough for most requests.
	room struct {
		items              [4]item
		heads              [4]int
		subject, composite [256]byte
	}
}

func (c *call) reset() {
	c.items, c.heads = c.room.items[:0], c.room.heads[:0]
	c.subject, c.composite = c.room.subject[:0], c.room.composite[:0]
}

type item struct {
	// rule is the limit of the item, or nil if it has none.
	rule    *rule
	subject string
	hits    int64
	// own reports whether hits is the descriptor's own number instead of the request's.
	own bool
	// refund reports whether the descriptor has negative hits, which are given back.
	refund bool
	// quota reports whether the item is in quota mode. Items in quota mode deny the request only if
	// all of them exceed their limits.
	quota bool
	// over reports whether the item exceeds its limit, even if that does not deny the request.
	over  bool
	usage stint.Usage
	// degraded reports whether the item was decided without the store. unavailable reports whether
	// it could not be decided at all.
	degraded, unavailable bool
	// charged is the number of units that the item has charged to its counter in the store.
	charged int64
	// asked is a buffer for the item's claim during a call to the store.
	asked [1]stint.Claim
	// next is the index of the next item with the same counter, or 0 if there is none. last is the
	// index of the last item with the same counter; it is set only in the first item with that
	// counter.
	next, last int
}

func (it *item) counted() bool { return it.rule != nil && !it.rule.unlimited }

func (it *item) code() rlsv3.RateLimitResponse_Code {
	if it.over && !it.rule.shadow {
		return rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return rlsv3.RateLimitResponse_OK
}

// cost returns the number of units for which the limit must have room. It is 0 for a refund, which
// does not need room.
func (it *item) cost() int64 {
	if it.refund {
		return 0
	}
	return it.hits
}

// denied reports whether the request is denied: a limit outside quota mode is exceeded, or all
// limits in quota mode are. Limits in shadow mode count as not exceeded.
func (c *call) denied() bool {
	for i := range c.items {
		if it := &c.items[i]; !it.quota && it.code() == rlsv3.RateLimitResponse_OVER_LIMIT {
			return true
		}
	}
	return c.quotasDeny()
}

// quotasDeny reports whether there are items in quota mode and all of them exceed their limits.
func (c *call) quotasDeny() bool {
	found := false
	for i := range c.items {
		if it := &c.items[i]; it.quota {
			found = true
			if it.code() == rlsv3.RateLimitResponse_OK {
				return false
			}
		}
	}
	return found
}

func (c *call) open(config *Config, r *rlsv3.RateLimitRequest, quotaMode bool) error {
	descriptors := r.GetDescriptors()
	if cap(c.items) < len(descriptors) {
		c.items = make([]item, len(descriptors))
	}
	c.items = c.items[:len(descriptors)]
	d := config.domains[r.GetDomain()]
	replaces := false
	for i, descriptor := range descriptors {
		it := &c.items[i]
		it.hits = hitsOf(r, descriptor)
		it.refund = descriptor.GetIsNegativeHits()
		it.quota = quotaMode // a descriptor without a limit counts as a quota with room
		if d == nil {
			continue
		}
		if limit := descriptor.GetLimit(); limit != nil {
			var err error
			if it.rule, err = override(d, limit, i); err != nil {
				return err
			}
			c.subject = appendDescriptor(append(c.subject[:0], d.subject...), descriptor)
		} else {
			it.rule, c.subject = d.match(descriptor, c.subject[:0], &c.composite)
		}
		if it.rule != nil {
			it.quota = (quotaMode || it.rule.quota) && it.counted() // an unlimited descriptor is not a quota
			replaces = replaces || len(it.rule.replaces) > 0
		}
		if it.counted() {
			it.subject = finishSubject(c.subject)
			if it.own = descriptor.GetHitsAddend() != nil; !it.refund {
				it.rule.note(it.hits, it.own)
			}
		}
	}
	if replaces {
		c.replace(quotaMode)
	}
	return nil
}

// replace drops each limit that another limit in the same request replaces.
func (c *call) replace(quotaMode bool) {
	names := map[string]bool{}
	for i := range c.items {
		if r := c.items[i].rule; r != nil {
			for _, name := range r.replaces {
				names[name] = true
			}
		}
	}
	for i := range c.items {
		if it := &c.items[i]; it.counted() && it.rule.name != "" && names[it.rule.name] {
			it.rule, it.quota = nil, quotaMode
		}
	}
}

// free prepares the call for another request. It drops buffers that are larger than those in room,
// so that the garbage collector can free them.
func (c *call) free() {
	clear(c.items)
	c.reset()
}

// hitsOf returns the number of hits of a descriptor: its own number, which may be zero, or, if it
// has none, the request's number, where zero means one. The result is at most [stint.MaxUnits],
// because no limit has more room.
func hitsOf(r *rlsv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), uint64(stint.MaxUnits)))
	}
	return max(int64(r.GetHitsAddend()), 1)
}

// override returns the limit that descriptor i contains. Such a limit is in shadow or quota mode
// only if [Options] say so.
func override(d *domain, limit *commonv3.RateLimitDescriptor_RateLimitOverride, i int) (*rule, error) {
	current := &rlsv3.RateLimitResponse_RateLimit{
		RequestsPerUnit: limit.GetRequestsPerUnit(),
		Unit:            rlsv3.RateLimitResponse_RateLimit_Unit(limit.GetUnit()),
		UnitMultiplier:  limit.GetUnitMultiplier(),
	}
	if windowOf(current.GetUnit(), multiplierOf(current)) == 0 {
		return nil, status.Errorf(codes.InvalidArgument,
			"stint: descriptors[%d].limit: %d times the unit %v is not a window; want a unit other than UNKNOWN, and at most %d days",
			i, multiplierOf(current), current.GetUnit(), stint.MaxWindow/day)
	}
	r := &rule{key: d.override}
	r.setLimit(current)
	return r, nil
}
