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

// call is one request while it is decided. It is used again for others.
type call struct {
	items []item
	heads []int
	// deadline is when the call has to be answered, however many questions it takes.
	deadline time.Time
	// verdict is what the observer receives, descriptor by descriptor, and usage its usage.
	verdict policy.Verdict
	usage   [1]stint.Usage
	// claims is room for those of a question.
	claims []stint.Claim
	// subject and composite are room for texts that are being put together.
	subject, composite []byte

	// room is enough for most requests, so that a call is one piece of memory.
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
	// rule is its limit, nil if it has none.
	rule    *rule
	subject string
	hits    int64
	// own says that the hits are the descriptor's own.
	own bool
	// refund says that the hits are given back.
	refund bool
	// quota says that the item is one of several of which one need have room.
	quota bool
	// over says that there was no room, whatever becomes of it.
	over  bool
	usage stint.Usage
	// degraded says that it was decided without the store, and unavailable that nobody could tell.
	degraded, unavailable bool
	// charged is how much was charged.
	charged int64
	// asked is room for its claim while the store is asked.
	asked [1]stint.Claim
	// next and last are items of the same counter: next is 0 if there is none, last the first's.
	next, last int
}

func (it *item) counted() bool { return it.rule != nil && !it.rule.unlimited }

// code is what the answer says of the item.
func (it *item) code() rlsv3.RateLimitResponse_Code {
	if it.over && !it.rule.shadow {
		return rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return rlsv3.RateLimitResponse_OK
}

// cost is what there has to be room for. A refund only looks, once it is made.
func (it *item) cost() int64 {
	if it.refund {
		return 0
	}
	return it.hits
}

// claim is the item as a store knows it.
func (it *item) claim(w Window) stint.Claim {
	c := stint.Claim{Subject: it.subject, Limits: it.rule.limits[w], Cost: it.cost()}
	switch limit := it.rule.max(); {
	case w == Sliding:
	case limit == 0:
		c.Limits, c.Cost = it.rule.exceeded[w], min(c.Cost, 1)
	case c.Cost > limit:
		c.Cost = 0 // whose answer is of this window: that something never fits may be remembered from the one before
	}
	return c
}

// neverFits reports whether there is no room for the item in any window.
func (it *item) neverFits() bool { return it.cost() > it.rule.max() }

func (it *item) window() time.Duration { return it.rule.limits[Sliding][0].Window }

func (it *item) remaining() uint32 { return uint32(max(it.rule.max()-it.usage.Used, 0)) }

// denied reports whether a limit is exceeded, or all of those in quota mode.
func (c *call) denied() bool {
	for i := range c.items {
		if it := &c.items[i]; !it.quota && it.code() == rlsv3.RateLimitResponse_OVER_LIMIT {
			return true
		}
	}
	return c.quotasDeny()
}

// quotasDeny reports whether there are items in quota mode, and none has room.
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
		it.quota = quotaMode // with room, if it has no limit
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
			it.quota = (quotaMode || it.rule.quota) && it.counted() // unlimited is not a quota
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

// replace drops the limits that others in the same request replace.
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

// counters gathers the picked items by their counters: heads are the first, others follow them.
func (c *call) counters(pick func(*item) bool) []int {
	c.heads = c.heads[:0]
	type counter struct {
		subject string
		window  time.Duration
	}
	var index map[counter]int // of many; a few are searched for
	for i := range c.items {
		it := &c.items[i]
		if !it.counted() || !pick(it) {
			continue
		}
		it.next, it.last = 0, i
		head := -1
		if index != nil {
			if h, ok := index[counter{it.subject, it.window()}]; ok {
				head = h
			}
		} else {
			for _, h := range c.heads {
				if first := &c.items[h]; first.subject == it.subject && first.window() == it.window() {
					head = h
				}
			}
		}
		if head >= 0 {
			first := &c.items[head]
			c.items[first.last].next = i
			first.last = i
			continue
		}
		c.heads = append(c.heads, i)
		if index != nil {
			index[counter{it.subject, it.window()}] = i
		} else if len(c.heads) == stint.MaxClaims {
			index = map[counter]int{}
			for _, h := range c.heads {
				index[counter{c.items[h].subject, c.items[h].window()}] = h
			}
		}
	}
	return c.heads
}

// free forgets the request. What did not fit into the room is left to the collector.
func (c *call) free() {
	clear(c.items)
	c.reset()
}

// hitsOf is how many units a descriptor asks for: its own number, zero included, else that of the
// request, of which zero means one. No limit has room for more than [stint.MaxUnits].
func hitsOf(r *rlsv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), uint64(stint.MaxUnits)))
	}
	return max(int64(r.GetHitsAddend()), 1)
}

// override is the limit that a descriptor brings along, never in shadow or quota mode.
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
