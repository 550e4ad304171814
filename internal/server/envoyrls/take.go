package envoyrls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// maxParallel is the maximum number of parallel calls to the store for one request.
const maxParallel = 16

func anyItem(*item) bool { return true }

// request returns a request to the store. The store must answer it before the deadline.
func (s *Service) request(deadline time.Time, claims []stint.Claim, mode stint.Mode) stint.Request {
	r := stint.Request{Claims: claims, Mode: mode, Failure: &s.options.Failure}
	// If nearly all of the budget is left, use the configured policy itself, which saves an
	// allocation.
	if left := time.Until(deadline); left < r.Failure.Budget/16*15 {
		r.Failure = &stint.FailurePolicy{Mode: r.Failure.Mode, Budget: max(left, 1)}
	}
	return r
}

// counters groups the picked items by counter. It returns the index of the first item of each
// counter; the other items are linked to it.
func (c *call) counters(pick func(*item) bool) []int {
	c.heads = c.heads[:0]
	type counter struct {
		subject string
		window  time.Duration
	}
	var index map[counter]int // nil for fewer than MaxClaims counters: they are searched linearly
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

func (it *item) claim(w Window) stint.Claim {
	c := stint.Claim{Subject: it.subject, Limits: it.rule.limits[w], Cost: it.cost()}
	switch limit := it.rule.max(); {
	case w == Sliding:
	case limit == 0:
		c.Limits, c.Cost = it.rule.exceeded[w], min(c.Cost, 1)
	case c.Cost > limit:
		c.Cost = 0 // only peek: for a cost that never fits, the store may return a denial from the previous window
	}
	return c
}

// neverFits reports whether the item costs more than its limit ever allows in a window.
func (it *item) neverFits() bool { return it.cost() > it.rule.max() }

func (it *item) window() time.Duration { return it.rule.limits[Sliding][0].Window }

// takeApart decides each picked item separately. Items with different counters are decided in
// parallel. Items with the same counter are decided in order.
func (s *Service) takeApart(ctx context.Context, c *call, pick func(*item) bool, mode stint.Mode) error {
	heads := c.counters(pick)
	switch len(heads) {
	case 0:
		return nil
	case 1:
		return s.takeInOrder(ctx, c, heads[0], mode)
	}
	var (
		group sync.WaitGroup
		taken atomic.Int64
		errs  = make([]error, len(heads))
	)
	work := func() {
		for k := int(taken.Add(1)) - 1; k < len(heads); k = int(taken.Add(1)) - 1 {
			errs[k] = s.takeInOrder(ctx, c, heads[k], mode)
		}
	}
	for range min(len(heads), maxParallel) - 1 {
		group.Go(work)
	}
	func() {
		defer group.Wait() // even after a panic, because the call is reused
		work()
	}()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// takeInOrder decides item i and the following items with the same counter.
func (s *Service) takeInOrder(ctx context.Context, c *call, i int, mode stint.Mode) error {
	for {
		it := &c.items[i]
		if err := s.takeAlone(ctx, c, it, mode); err != nil {
			return err
		}
		if i = it.next; i == 0 {
			return nil
		}
	}
}

func (s *Service) takeAlone(ctx context.Context, c *call, it *item, mode stint.Mode) error {
	asked := s.options.Now()
	if s.options.Window != Sliding && it.neverFits() {
		// For a limit of zero, it.claim returns a claim with room for one hit, and this hit must be
		// charged even if the item would only be peeked at. For any other limit, the claim has a
		// cost of 0, so nothing is charged.
		mode = stint.ModeTake
	}
	it.asked[0] = it.claim(s.options.Window)
	d, err := s.store.Take(ctx, s.request(c.deadline, it.asked[:], mode))
	if err != nil {
		return err
	}
	it.over = !d.Allowed
	it.use(&d, 0)
	if s.options.Window == Sliding {
		it.noteCharge(&d.Charge, 0)
		return nil
	}
	s.countFixed(ctx, c.deadline, it, &d, asked)
	return nil
}

// use sets the usage of the item to the kth usage of a decision. If the store could not decide, the
// limit counts as exhausted until the request may be repeated.
func (it *item) use(d *stint.Decision, k int) {
	if usages := d.Usages(); k < len(usages) {
		it.usage = usages[k]
	}
	it.degraded, it.unavailable = d.Degraded, d.Unavailable
	if d.Unavailable {
		it.usage.Used = it.rule.max()
		it.usage.ResetAfter = max(d.RetryAfter, time.Second)
	}
}

// noteCharge records how many units claim k of a charge took from the item's counter in the store.
// Leased units and charges of the fallback do not count.
func (it *item) noteCharge(c *stint.Charge, k int) {
	if c.Data().ID != 0 && !c.Data().Fallback && !c.Data().IsLeased(k) {
		it.charged = c.Claims()[k].Cost
	}
}
