package dashboard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/server/control"
)

// banCache caches the list of bans in force, because a store must scan all its data to list bans.
// Only one caller scans at a time, and a list stays valid for several times the duration of its
// scan. Even if many callers list bans, the store therefore spends most of its time on other work.
type banCache struct {
	changed atomic.Bool   // whether this process may have changed bans since the last scan
	turn    chan struct{} // holds one value while a caller reads the list or scans the store

	list []control.Ban
	most int // the maximum number of bans that the last scan requested
	at   time.Time
	took time.Duration
}

// cacheFactor is the time for which a list stays valid, as a multiple of the duration of its scan.
const cacheFactor = 4

func (b *banCache) get(ctx context.Context, admin *control.Admin, n int) ([]control.Ban, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	enough := b.most >= n || len(b.list) < b.most
	if !b.changed.Swap(false) && enough && time.Since(b.at) < cacheFactor*b.took {
		return b.list[:min(n, len(b.list))], nil
	}
	began := time.Now()
	list, err := admin.Bans(ctx, n)
	if err != nil {
		b.most = 0
		return nil, err
	}
	b.list, b.most, b.at = list, n, time.Now()
	b.took = b.at.Sub(began)
	return list, nil
}
