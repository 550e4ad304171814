package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// Every call fails with why Redis is away, and with what kind of failure that is.
func TestCallsWithoutAConnection(t *testing.T) {
	locked := redistest.Start(t, "--requirepass", "secret")
	for want, url := range map[stint.StoreErrorKind]string{
		stint.KindUnreachable: "redis://127.0.0.1:1", stint.KindAuth: "redis://" + locked.Addr(),
	} {
		s := testkit.Opened(redisstore.Open(t.Context(), redisstore.Config{URL: url}))(t)
		<-s.Ready()
		errs := redisstore.Verbs(t.Context(), s, time.Minute)
		batch := &driver.Call{}
		s.TakeBatch(t.Context(), []*driver.Call{batch})
		for op, err := range errs {
			var failed *stint.StoreError
			if !errors.As(err, &failed) || failed.Op != op || failed.Kind != want || failed.Err == nil ||
				strings.Count(err.Error(), "stint: ") != 1 {
				t.Errorf("%s of %s: %v, want why the store is away", op, url, err)
			}
		}
		if errkind.Of(batch.Err) != want {
			t.Errorf("a batch to %s: %v, want why the store is away", url, batch.Err)
		}
		if err := s.Announcements(t.Context(), nil); errkind.Of(err) == stint.KindAuth || err == nil {
			t.Errorf("listening to %s: %v, want nothing about permissions", url, err)
		}
	}
}

// Until the first attempt to connect has ended, calls wait for it. After Close they fail.
func TestCallsAwaitTheFirstConnection(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	proxy.SetLatency(time.Hour, 0)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	url := proxy.URL() + "?dial_timeout=1h&write_timeout=1h"
	s := testkit.Opened(redisstore.Open(short, redisstore.Config{URL: url}))(t)
	if err := redisstore.Verbs(short, s, time.Minute)["take"]; errkind.Of(err) != stint.KindTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with little time: %v, want that it is up", err)
	}
	select {
	case <-s.Ready():
		t.Fatal("connected to a server that has not answered")
	default:
	}
	proxy.SetLatency(0, 0)
	for op, err := range redisstore.Verbs(t.Context(), s, time.Minute) {
		if err != nil {
			t.Errorf("%s: %v, want that it waited", op, err)
		}
	}
	<-s.Ready()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for op, err := range redisstore.Verbs(t.Context(), s, time.Minute) {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s after Close: %v", op, err)
		}
	}
}
