package resilience

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// maxDebts is of how many subjects it is kept what the store has to be charged with.
const maxDebts = 10_000

// debt is what a subject was admitted without the store.
type debt struct {
	id    string      // so that it is charged once, however often it has to be sent
	claim stint.Claim // Cost is the sum
	done  uint16      // limits that have been charged, a bit each
	tries int
}

// debts are those that are yet to be charged to the store.
type debts struct {
	mu      sync.Mutex
	open    map[uint64]*debt // by identity, see memo
	due     []*debt          // taken from open, to be charged
	dropped int64            // decisions that will not be charged
}

// add notes what was admitted, or with a negative cost given back, locally. The limits, if they are
// given, are the claim's and may be kept.
func (ds *debts) add(m *memo, c *stint.Claim, limits []stint.Limit, cost int64) {
	if cost == 0 || c.Cost == 0 {
		return
	}
	key, _ := m.identify(c)
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.open[key]
	switch {
	case d != nil:
		d.claim.Cost = min(max(d.claim.Cost+cost, 0), stint.MaxUnits)
	case cost < 0:
	case len(ds.open)+len(ds.due) >= maxDebts:
		ds.dropped++
	default:
		if ds.open == nil {
			ds.open = make(map[uint64]*debt)
		}
		if limits == nil {
			limits = slices.Clone(c.Limits)
		}
		ds.open[key] = &debt{id: rand.Text(), claim: stint.Claim{
			Subject: strings.Clone(c.Subject), Scope: strings.Clone(c.Scope), Limits: limits, Cost: cost}}
	}
}

func (ds *debts) forget(m *memo, c *stint.Claim) {
	key, _ := m.identify(c)
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.open, key)
}

// next returns a debt to charge, nil if there is none, and how many decisions were
// dropped since it was last asked.
func (ds *debts) next() (d *debt, dropped int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.due) == 0 {
		for _, d := range ds.open {
			ds.due = append(ds.due, d)
		}
		clear(ds.open)
	}
	dropped, ds.dropped = ds.dropped, 0
	if len(ds.due) == 0 {
		ds.due = nil
		return nil, dropped
	}
	last := len(ds.due) - 1
	d, ds.due = ds.due[last], ds.due[:last]
	return d, dropped
}

// maxTries is how often a debt is charged in vain before it is forgotten: one that cannot be
// charged must not keep the others from it.
const maxTries = 5

// keep puts a debt back, behind the others.
func (ds *debts) keep(d *debt) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.tries++; d.tries < maxTries {
		ds.due = slices.Insert(ds.due, 0, d)
	} else {
		ds.dropped++
	}
}

func (ds *debts) any() bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return len(ds.open)+len(ds.due) > 0
}

// fell notes a decision without the store.
func (f *Fallback) fell(cause *stint.StoreError) {
	if f.degraded.Add(1) == 1 {
		f.episode.Add(1)
	}
	f.attend()
	f.failed(cause, &f.news.decisions)
}

// attend has the next success settle. Many do at once, so it writes only if need be.
func (f *Fallback) attend() {
	if !f.unsettled.Load() {
		f.unsettled.Store(true)
	}
}

// settle does what is left to do once the store works again.
func (f *Fallback) settle() {
	if !f.unsettled.CompareAndSwap(true, false) {
		return
	}
	f.degraded.Store(0)
	if f.owed.any() && f.charging.CompareAndSwap(false, true) {
		f.run(f.chargeOwed)
	}
}

const (
	// chargeTime is how long charging a debt may take.
	chargeTime = time.Second
	// chargePause is how long nothing is charged after a failure.
	chargePause = time.Second
)

// chargeOwed charges the store with what was admitted without it. It ends at the first
// failure; a later success has it go on where it ended.
func (f *Fallback) chargeOwed() {
	again, lost := false, int64(0)
	for f.life.Err() == nil {
		d, dropped := f.owed.next()
		if lost += dropped; lost > 0 && sayAgain(&f.news.nextDropped, f.now()) {
			f.config.Logger.Warn("stint: not everything that was admitted without the store is charged to it afterwards",
				"decisions", lost, "subjects_kept", maxDebts)
			lost = 0
		}
		if d == nil {
			break
		}
		if err := f.chargeOne(d); err != nil {
			f.owed.keep(d)
			again = true
			sleep(f.life, chargePause)
			break
		}
	}
	f.charging.Store(false)
	if again || f.owed.any() {
		f.attend()
	}
}

// chargeOne charges one debt: to each limit by itself, what the local store still counts
// under it. The sum alone would be too much for a window that is shorter than the outage
// was. Where there is less room than that, all of it is taken. What concurrency limits
// hold stays where it is.
func (f *Fallback) chargeOne(d *debt) error {
	c := &d.claim
	patient := stint.FailurePolicy{Mode: stint.FailError, Budget: chargeTime}
	part := f.parts.of(c.Limits, f.shared())
	look, err := f.local.Take(f.life, stint.Request{
		Claim: stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: part.parts}, Mode: stint.Peek})
	if err != nil {
		return err
	}
	for k, u := range look.Usages() {
		cost := min(c.Cost, u.Used)
		if c.Limits[k].Algorithm == stint.Concurrency || cost <= 0 || d.done&(1<<k) != 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(f.life, chargeTime)
		_, err := f.inner.Take(ctx, stint.Request{
			Claim: stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits[k : k+1], Cost: cost},
			ID:    d.id + "/" + strconv.Itoa(k), Fit: true, Failure: &patient})
		cancel()
		if _, ok := errors.AsType[*stint.StoreError](err); ok {
			return err
		}
		d.done |= 1 << k
	}
	return nil
}
