package observe

import "time"

// sum adds up the last seconds, as far as the history goes back, and returns their number. Beyond a
// quarter of an hour it adds up coarse steps, the newest of which may have ended some seconds ago.
// The sum has no quantiles; see during.
func (h *history) sum(d time.Duration) (sum Point, seconds int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	steps, each := &h.fine, fine
	if d > fine*fineSteps {
		steps, each = &h.coarse, coarse
	}
	n := min(int(d/each), len(steps.items))
	for i := len(steps.items) - n; i < len(steps.items); i++ {
		sum.add(steps.at(i))
	}
	return sum, int64(n) * int64(each/time.Second)
}

// sumBefore adds up the coarse steps that ended at least skip ago and less than d ago, as far as
// the history goes back, and returns how many seconds they cover.
func (h *history) sumBefore(skip, d time.Duration) (sum Point, seconds int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.coarse.items {
		p := h.coarse.at(i)
		if ago := h.now - p.At; ago >= int64(skip/time.Second) && ago < int64(d/time.Second) {
			sum.add(p)
			seconds += finePerCoarse
		}
	}
	return sum, seconds
}

// during returns the durations of decisions and store calls in the last d, as far as the history
// goes back. The period may be up to one coarse step longer than d.
func (h *history) during(d time.Duration) (decisions, storeCalls buckets) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.marks.at(0)
	for i := range h.marks.items {
		if m := h.marks.at(i); m.at <= h.now-int64(d/time.Second) {
			from = m
		}
	}
	return h.last.decisions.sub(&from.decisions), h.last.storeCalls.sub(&from.storeCalls)
}

// setDurations sets the quantiles of the durations of decisions and store calls.
func (p *Point) setDurations(decisions, storeCalls *buckets) {
	p.P50, p.P99 = decisions.quantile(0.5).Seconds(), decisions.quantile(0.99).Seconds()
	p.StoreP50, p.StoreP99 = storeCalls.quantile(0.5).Seconds(), storeCalls.quantile(0.99).Seconds()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
