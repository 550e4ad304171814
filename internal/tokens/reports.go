package tokens

import (
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

const (
	// reportEvery is how often what a response has used so far is looked at.
	reportEvery = 10 * time.Second
	// reportTime is how long a report waits for the store.
	reportTime = time.Second
)

// Reports tell a store what a response has used so far, while it lasts. Others are then denied by
// what it uses beyond its estimate, and not only when it ends; and if this process dies, what was
// reported is charged.
type Reports struct {
	ctx   context.Context
	store stint.Store
	every time.Duration // a report is due, even if what was used is below the estimate

	mu    sync.Mutex
	read  func() (stint.Charge, stint.Amendment) // nil when the response has ended
	timer *time.Timer
	sent  stint.Costs // the last report
	at    time.Time   // of it
}

// StartReports begins to report what a response uses that is held for so long without a sign of
// life. Read returns the charge, or a part of it, and the heartbeat that says what was used. It is
// not called after Stop.
func StartReports(ctx context.Context, store stint.Store, hold time.Duration,
	read func() (stint.Charge, stint.Amendment)) *Reports {
	r := &Reports{ctx: context.WithoutCancel(ctx), store: store, every: hold / 3, read: read, at: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(min(reportEvery, r.every), r.look)
	return r
}

// Stop ends the reports. It may be called on nil, and more than once.
func (r *Reports) Stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = nil
	r.timer.Stop()
}

// look sends a report if what was used is more than is charged, or if one is due.
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

// news reports whether there is something to report: more than is charged or, when a report is due,
// than was reported.
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
