package tokens

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

const (
	// reportEvery is the maximum time between two checks of the usage so far.
	reportEvery = 10 * time.Second
	reportTime  = time.Second
)

// Reports reports the usage of a response to a store while the response is in progress. So usage
// above the estimate limits other requests within seconds, not only after the response has ended.
// If this process dies, the store charges the reported usage.
type Reports struct {
	ctx   context.Context
	store stint.Store
	// every is the time from one report to the next while usage is below the estimate.
	every time.Duration

	mu    sync.Mutex
	read  func() (stint.Charge, stint.Amendment) // nil once the response has ended
	timer *time.Timer
	sent  stint.Costs // costs in the last report
	at    time.Time   // time of the last report
}

// StartReports starts to report the usage of a response. The argument hold is the time after which
// the response's hold expires without a heartbeat. read returns the charge, or a part of it, and
// the heartbeat: an amendment that reports the usage so far. read is not called after Stop.
func StartReports(ctx context.Context, store stint.Store, hold time.Duration,
	read func() (stint.Charge, stint.Amendment)) *Reports {
	r := &Reports{ctx: context.WithoutCancel(ctx), store: store, every: hold / 3, read: read, at: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(min(reportEvery, r.every), r.look)
	return r
}

// Stop ends the reports. It may be called on nil and more than once.
func (r *Reports) Stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = nil
	r.timer.Stop()
}

// look sends a report if there is news, and sets the timer for the next check.
func (r *Reports) look() {
	r.mu.Lock()
	if r.read == nil {
		r.mu.Unlock()
		return
	}
	c, a := r.read()
	send := r.news(&c, a.Costs)
	r.mu.Unlock()

	var err error
	if send {
		ctx, cancel := context.WithTimeout(r.ctx, reportTime)
		_, err = r.store.Amend(ctx, c, a)
		cancel()
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if send && err == nil {
		r.sent, r.at = a.Costs, time.Now()
	}
	if r.read != nil {
		r.timer.Reset(min(reportEvery, r.every))
	}
}

// news reports whether there is usage to report now: under some limit, the usage has grown since
// the last report, and either it exceeds the charged cost or the next report is due.
func (r *Reports) news(c *stint.Charge, costs stint.Costs) bool {
	due := time.Since(r.at) >= r.every
	claims := c.Claims()
	for i := range claims {
		for k := range claims[i].Limits {
			l := &claims[i].Limits[k]
			total, sent := costs[l.Name], r.sent[l.Name]
			if total > sent && (due || total > claims[i].CostOf(l)) {
				return true
			}
		}
	}
	return false
}
