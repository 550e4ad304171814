package resilience

import (
	"context"
	"time"

	"github.com/stint-limiter/stint/driver"
)

const (
	// chargeTime is how long a batch of what is owed may take, and chargeMost how large it is.
	chargeTime = time.Second
	chargeMost = 128
	// chargeEvery is how often a batch is sent, and chargePause how long to wait after a failure or
	// with a slow store. Requests for a subject carry what is owed for it before.
	chargeEvery = 100 * time.Millisecond
	chargePause = time.Second
)

// chargeOwed runs while something is owed, and charges it in one batch at a time.
func (f *fallback) chargeOwed() {
	for pause := chargeEvery; f.local.owing.Load() > 0; {
		if sleep(f.life, jitter(pause)); f.life.Err() != nil {
			break
		}
		pause = chargeEvery
		begin := time.Now()
		if n, ok := f.chargeSome(f.life); n > 0 && !ok || time.Since(begin) > f.config.budget() {
			pause = chargePause
		}
		f.logDropped()
	}
	f.charging.Store(false)
	if f.local.owing.Load() > 0 && f.life.Err() == nil {
		f.startCharging() // something is owed since
	}
}

func (f *fallback) startCharging() {
	if !f.charging.Load() && f.charging.CompareAndSwap(false, true) {
		f.run(f.chargeOwed)
	}
}

// logDropped logs that something will not be charged.
func (f *fallback) logDropped() {
	if n := f.dropped.Load() + f.background.dropped.Load(); n > 0 && f.now() >= f.nextDropped {
		f.nextDropped = f.now() + int64(logEvery)
		f.config.Logger.Warn("stint: not everything that was admitted without the store is charged to it or given back afterwards",
			"decisions", f.dropped.Swap(0)+f.background.dropped.Swap(0), "kept", maxOwing)
	}
}

// drain charges what is owed until nothing is left, or the context ends.
func (f *fallback) drain(ctx context.Context) {
	for f.local.owing.Load() > 0 && ctx.Err() == nil {
		if n, ok := f.chargeSome(ctx); n == 0 || !ok { // it is being charged, or the store fails
			sleep(ctx, 10*time.Millisecond)
		}
	}
}

// chargeSome charges a batch. It returns how much was sent, and whether any of it was charged.
func (f *fallback) chargeSome(ctx context.Context) (n int, ok bool) {
	calls := f.local.collectSome(f.now())
	if len(calls) == 0 {
		return 0, true
	}
	ctx, cancel := context.WithTimeout(ctx, chargeTime)
	defer cancel()
	deadline := time.Now().Add(chargeTime)
	batch := make([]*driver.Call, len(calls))
	for i, o := range calls {
		o.Deadline = deadline
		batch[i] = &o.Call
	}
	f.batchStore.TakeBatch(ctx, batch)
	for _, o := range calls {
		ok = ok || o.Err == nil
		o.end()
	}
	return len(calls), ok
}
