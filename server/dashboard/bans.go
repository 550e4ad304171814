package dashboard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/server/control"
)

// bans are those in force, as they were when somebody last asked. To list them is to look at all that is stored: one does
// it at a time, and what was found is good enough for others for some times as long as it took. So however many ask, the
// store has most of its time for other things.
type bans struct {
	changed atomic.Bool   // since they were listed, by this process
	turn    chan struct{} // holds one while somebody reads or lists them

	list []control.Ban
	most int // that were asked for
	at   time.Time
	took time.Duration
}

// restFor is for how many times as long as it took a list is good.
const restFor = 4

// get returns up to n bans.
func (b *bans) get(ctx context.Context, desk *control.Desk, n int) ([]control.Ban, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	enough := b.most >= n || len(b.list) < b.most
	if !b.changed.Swap(false) && enough && time.Since(b.at) < restFor*b.took {
		return b.list[:min(n, len(b.list))], nil
	}
	began := time.Now()
	list, err := desk.Bans(ctx, n)
	if err != nil {
		b.most = 0
		return nil, err
	}
	b.list, b.most, b.at = list, n, time.Now()
	b.took = b.at.Sub(began)
	return list, nil
}
