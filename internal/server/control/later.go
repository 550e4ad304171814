package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
)

const (
	// maxLater is the maximum number of bans that are kept to be sent later. laterEvery is the
	// interval between attempts to send them.
	maxLater   = 1000
	laterEvery = time.Second
)

// laterBans holds each ban that the store did not accept, until the store accepts it or the ban
// ends. It is safe for concurrent use. A nil *laterBans keeps no bans.
type laterBans struct {
	mu    sync.Mutex
	until map[string]time.Time // the end of each kept ban, by subject
}

// SendLater makes d keep bans that the store does not accept, and send them again until ctx ends.
// Call it before any other method of d.
func (d *Admin) SendLater(ctx context.Context, logger *slog.Logger) {
	d.later = &laterBans{until: map[string]time.Time{}}
	go func() { // ends when ctx ends
		tick := time.NewTicker(laterEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.sendLater(ctx, logger)
			}
		}
	}()
}

// sendLater sends the kept bans, in no particular order. If the store does not accept a ban,
// sendLater stops, and the next call sends that ban and the rest.
func (d *Admin) sendLater(ctx context.Context, logger *slog.Logger) {
	for subject, until := range d.later.all() {
		left := time.Until(until).Truncate(time.Microsecond)
		if left < stint.MinWindow {
			d.later.drop(subject)
			continue
		}
		if d.command(ctx, stint.Command{Kind: stint.CommandBan, Subject: subject, For: left}) != nil {
			return
		}
		if d.later.sent(subject, until) {
			logger.Info("stint: sent a ban from an outage to the store", "subject", label.Short(subject),
				"until", until)
			continue
		}
		// The subject was unbanned while the ban was being sent. The store may have executed the
		// unban first, so send the unban again.
		_ = d.command(ctx, stint.Command{Kind: stint.CommandUnban, Subject: subject})
	}
}

// keep keeps a ban if err means that the store did not accept it. It reports whether it keeps this
// ban or a longer one.
func (l *laterBans) keep(subject string, until time.Time, err error) bool {
	if _, failed := errors.AsType[*stint.StoreError](err); l == nil || !failed {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.until[subject]; known && before.After(until) {
		return true
	}
	if len(l.until) >= maxLater {
		return false
	}
	l.until[subject] = until
	return true
}

func (l *laterBans) drop(subject string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, subject)
}

// sent removes a ban that the store has accepted, unless a longer ban has replaced it. It reports
// whether there was still a kept ban for the subject.
func (l *laterBans) sent(subject string, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.until[subject]
	if known && now.Equal(until) {
		delete(l.until, subject)
	}
	return known
}

func (l *laterBans) all() map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.until)
}
