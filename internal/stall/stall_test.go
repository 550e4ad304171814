package stall

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// writer notes when its deadline is set to the past, in which case a write that blocks ends if it
// can.
type writer struct {
	http.ResponseWriter
	ends  bool
	ended chan time.Time
}

func (w *writer) SetWriteDeadline(at time.Time) error {
	if !w.ends {
		return http.ErrNotSupported
	}
	if at.Before(time.Now()) {
		close(w.ended)
	}
	return nil
}

func TestWatch(t *testing.T) {
	const timeout = 30 * time.Second
	for _, test := range []struct {
		name   string
		writes []time.Duration // how long each blocks, unless it is ended
		pause  time.Duration   // between them
		ends   bool
		want   []time.Duration // when each is over, from its beginning
		ended  bool
		stuck  bool
	}{
		{"quick", []time.Duration{0, time.Second}, time.Hour, true, []time.Duration{0, time.Second}, false, false},
		{"slow", slices.Repeat([]time.Duration{29 * time.Second}, 3), 0, true,
			slices.Repeat([]time.Duration{29 * time.Second}, 3), false, false},
		{"stalled", []time.Duration{time.Second, time.Hour}, 0, true,
			[]time.Duration{time.Second, timeout}, true, false},
		{"stalled after a pause", []time.Duration{0, time.Hour}, 20 * time.Second, true,
			[]time.Duration{0, timeout}, true, false},
		{"without deadlines", []time.Duration{time.Hour}, 0, false, []time.Duration{time.Hour}, true, true},
		{"without deadlines, in between", []time.Duration{45 * time.Second}, time.Hour, false,
			[]time.Duration{45 * time.Second}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writer{ends: test.ends, ended: make(chan time.Time)}
				var stuck atomic.Bool
				var watch Watch
				watch.Init(w, timeout, func() func() { return func() { stuck.Store(true) } })
				var got []time.Duration
				for _, blocks := range test.writes {
					began := time.Now()
					if !watch.Begin() {
						break
					}
					select {
					case <-time.After(blocks):
					case <-w.ended:
					}
					watch.End()
					got = append(got, time.Since(began))
					time.Sleep(test.pause)
				}
				watch.Stop()
				if !slices.Equal(got, test.want) || watch.Ended() != test.ended || stuck.Load() != test.stuck {
					t.Errorf("got %v, ended %v, stuck %v; want %v, %v, %v", got, watch.Ended(), stuck.Load(), test.want,
						test.ended, test.stuck)
				}
				if test.ended && watch.Begin() {
					t.Error("more can be written")
				}
			})
		})
	}
}
