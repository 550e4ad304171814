package memorystore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func TestStats(t *testing.T) {
	s := newStore(t, Config{MaxSubjects: 100, MaxBytes: 1 << 20})
	lim := newLimiter(t, s, stint.PerHour(10))
	if got, want := s.Stats(), (Stats{MaxSubjects: 100, MaxBytes: 1 << 20}); got != want {
		t.Errorf("empty: %+v, want %+v", got, want)
	}
	for i := range 50 {
		allow(t, lim, user(i))
	}
	if got := s.Stats(); got.Subjects != 50 || got.Bytes < 50*int64(recordBytes) || got.Evicted != 0 {
		t.Errorf("after 50 subjects: %+v", got)
	}
	for i := range 1000 {
		allow(t, lim, user(i))
	}
	if got := s.Stats(); got.Evicted < 800 || got.Subjects > 101 {
		t.Errorf("after 1000 subjects: %+v, want most of them evicted", got)
	}
}

// Bans are listed while others come, go and are made; a ban that is in force all the time is never
// missed.
func TestBansWhileOthersAreBusy(t *testing.T) {
	s := newStore(t, Config{})
	ban := func(subject string, kind stint.CommandKind) {
		if err := s.Command(context.Background(),
			stint.Command{Kind: kind, Subject: subject, For: time.Hour}); err != nil {
			t.Error(err)
		}
	}
	const steady = 500
	for i := range steady {
		ban("steady:"+user(i)+strings.Repeat("x", i%30), stint.CommandBan) // short keys and long ones
	}
	busy, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; busy.Err() == nil; i++ {
			ban(user(i), stint.CommandBan)
			ban(user(i-100), stint.CommandUnban)
		}
	})
	for range 20 {
		bans, err := s.Bans(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, b := range bans {
			if strings.HasPrefix(b.Subject, "steady:user:") {
				found++
			}
		}
		if found != steady {
			t.Errorf("found %d of the bans, want %d", found, steady)
		}
	}
	stop()
	work.Wait()
}

func TestInspectAfterClose(t *testing.T) {
	s := newStore(t, Config{})
	s.Close()
	_, inspect := s.Inspect(t.Context(), stint.Claim{Subject: "a"})
	_, bans := s.Bans(t.Context(), 1)
	_, scopes := s.Scopes(t.Context(), "a")
	for op, err := range map[string]error{"inspect": inspect, "bans": bans, "scopes": scopes} {
		var failed *stint.StoreError
		if !errors.Is(err, errClosed) || !errors.As(err, &failed) || failed.Op != op {
			t.Errorf("%s: %v, want errClosed", op, err)
		}
	}
}
