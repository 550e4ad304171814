package resilience

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// messages calls a function with every message that is logged.
type messages struct {
	slog.Handler
	on func(string)
}

func (messages) Enabled(context.Context, slog.Level) bool { return true }

func (h messages) Handle(_ context.Context, r slog.Record) error {
	h.on(r.Message)
	return nil
}

// gone is a store that does not answer until it is back.
type gone struct{ back atomic.Bool }

func (s *gone) err() error {
	if s.back.Load() {
		return nil
	}
	return &stint.StoreError{Op: "take", Kind: errkind.Timeout, Err: context.DeadlineExceeded}
}

func (s *gone) Take(context.Context, stint.Request) (stint.Decision, error) {
	return stint.Decision{}, s.err()
}

func (s *gone) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, s.err()
}

func (s *gone) Command(context.Context, stint.Command) error { return s.err() }

// A call that fails while the end of an outage is told begins another one.
func TestCallFailsAtTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gone{}
		var f *fallback
		lost, back := 0, 0
		f, err := newFallback(bottom{store}, oneByOne{store}, Config{Logger: slog.New(messages{on: func(m string) {
			switch {
			case strings.Contains(m, "cannot be asked"):
				lost++
			case strings.Contains(m, "again"):
				if back++; back == 1 {
					f.outage.decisions.Add(1) // as failed does first; its goroutine has to wait for the CPU then
				}
			}
		}})})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Take(t.Context(), oneUnit("a", stint.PerHour(5)))
		store.back.Store(true)
		time.Sleep(10 * time.Second)
		f.Close()
		if lost != 2 || back != 2 {
			t.Errorf("lost %d times and back %d times, want 2", lost, back)
		}
	})
}

func newTestLedger(t testing.TB, instances int64) *ledger {
	c := Config{}.withDefaults()
	l, err := newLedger(&c)
	if err != nil {
		t.Fatal(err)
	}
	l.instances = func() int64 { return instances }
	t.Cleanup(l.close)
	return l
}

// Holders that died without the store do not count when others come.
func TestDeadHoldersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLedger(t, 2)
		r := oneUnit("a", stint.AtOnce(100, time.Second))
		for range 5 {
			time.Sleep(time.Hour)
			if _, _, err := l.decide(&r, false); err != nil {
				t.Fatal(err)
			}
		}
		if n := l.find(&r.Claims[0]).of(&r.Claims[0].Limits[0], 0).uncounted(0, 0, l.now()); n != 1 {
			t.Errorf("%d places, want 1", n)
		}
	})
}

func BenchmarkHeard(b *testing.B) {
	for name, more := range map[string]int64{"alone": 0, "beside others": 10} {
		b.Run(name, func(b *testing.B) {
			l := newTestLedger(b, 1)
			r := oneUnit("a", stint.PerMinute(1<<40))
			d := stint.Decision{Allowed: true, Charge: contract.ChargeOf(&r)}
			usages := d.MakeUsages(1)
			b.ReportAllocs()
			for i := int64(1); b.Loop(); i++ {
				d.Charge.Data().ID, d.Charge.Data().Now = uint64(i), i
				usages[0] = stint.Usage{Used: i + more, ResetAfter: time.Minute}
				l.answered(&r, &d, uint64(i), false)
			}
		})
	}
}
