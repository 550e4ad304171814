package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

func openAt(t *testing.T, url string) *Store {
	t.Helper()
	return testkit.Opened(OpenNow(t.Context(), Config{URL: url}))(t)
}

// batchOf decides one call in a batch that has so much time.
func batchOf(t *testing.T, s *Store, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c := hourly("batch", "")
	s.TakeBatch(ctx, []*driver.Call{c})
	return c.Err
}

// crowd makes so many batches at a time that there are as many connections for them as can be.
func crowd(t *testing.T, s *Store, proxy *redistest.Proxy) {
	t.Helper()
	proxy.SetLatency(5*time.Millisecond, 0)
	defer proxy.SetLatency(0, 0)
	var group sync.WaitGroup
	defer group.Wait()
	done := make(chan struct{})
	defer close(done)
	for range 2 * ownConnections {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := batchOf(t, s, time.Minute); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	testkit.Eventually(t, "all connections are made",
		func() bool { return s.conn.roomAt("").made.Load() == ownConnections })
}

// While Redis is silent, batches keep their connections until it answers, and other calls end in
// time.
func TestBatchesAreLate(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openAt(t, proxy.URL()+"?write_timeout=1m")
	crowd(t, s, proxy)
	late := make(chan error)
	server.Pause(t)
	const batches = ownConnections + 2
	for range batches {
		go func() { late <- batchOf(t, s, time.Minute) }()
	}
	testkit.Eventually(t, "all connections are taken",
		func() bool { return s.conn.roomAt("").used.Load() == ownConnections })
	for range 3 {
		for op, err := range Verbs(t.Context(), s, 20*time.Millisecond) {
			if errkind.Of(err) != stint.KindTimeout {
				t.Errorf("%s of a silent server: %v", op, err)
			}
		}
	}
	server.Resume(t)
	for range batches {
		if err := <-late; err != nil {
			t.Error(err)
		}
	}
	for op, err := range Verbs(t.Context(), s, time.Minute) {
		if err != nil {
			t.Errorf("%s afterwards: %v", op, err)
		}
	}
	if n := proxy.Dials(); n > ownConnections+1 { // nobody listens
		t.Errorf("%d connections were made", n)
	}
}

// After a restart of Redis one call finds that out, and perhaps one on the connection that calls
// share. Those on other connections are not sent there.
func TestARestartFailsFewCalls(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := openAt(t, proxy.URL())
	crowd(t, s, proxy)
	proxy.Cut()
	proxy.Restore()
	failed := 0
	for range 2 * ownConnections {
		if err := batchOf(t, s, time.Minute); err != nil {
			failed++
		}
	}
	if failed > 2 {
		t.Errorf("%d calls failed, want two at most", failed)
	}
}

// A connection that was idle for too long, or not used since another was lost, sends nothing.
func TestStaleLinks(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*link)
		stale bool
	}{
		"used":                    {func(*link) {}, false},
		"idle":                    {func(k *link) { k.used -= idle }, true},
		"the rest of a call":      {func(k *link) { k.used, k.sent = k.used-idle, true }, false},
		"another is lost":         {func(k *link) { k.of.lost.Store(int64(k.used + 1)) }, true},
		"another was lost before": {func(k *link) { k.of.lost.Store(int64(k.used - 1)) }, false},
		"another is lost, the rest of a call": {func(k *link) {
			k.sent = true
			k.of.lost.Store(int64(k.used + 1))
		}, false},
		"expired": {func(k *link) {
			k.used -= idle
			k.expire()
		}, true},
		"not expired": {(*link).expire, false},
	} {
		client, server := net.Pipe()
		k := &link{Conn: client, of: &connection{began: time.Now().Add(-time.Hour)}, used: time.Hour, room: &room{},
			expiry: time.NewTimer(time.Hour)}
		go func() { _, _ = server.Read(make([]byte, 10)) }()
		test.spoil(k)
		if _, err := k.Write([]byte("x")); errors.Is(err, errStale) != test.stale || !test.stale && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = k.Close()
	}
}
