package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// window is a limit in a reply of inspect.lua.
type window struct {
	used, reset, retry, hidden int64
	entries                    [][3]int64
}

func inspectReply(call uint64, now, until, level, strikes int64, windows ...window) string {
	b := le.AppendUint64(nil, call)
	for _, n := range []int64{now, until, level, strikes} {
		b = appendInt(b, n)
	}
	for _, w := range windows {
		for _, n := range []int64{w.used, w.reset, w.retry, 0, w.hidden} {
			b = appendInt(b, n)
		}
		b = le.AppendUint16(b, uint16(len(w.entries)))
		for _, e := range w.entries {
			for _, n := range e {
				b = appendInt(b, n)
			}
		}
	}
	return string(b)
}

// decodeInspect reads the reply of inspect.lua about limits.
func decodeInspect(limits []stint.Limit, reply string) (driver.Inspection, error) {
	c := callOfTests(nil)
	c.divide([]stint.Claim{{Limits: limits}}, 0)
	return c.decodeInspect(limits, reply)
}

func TestDecodeInspect(t *testing.T) {
	limits := []stint.Limit{stint.PerMinute(10), stint.AtOnce(2, time.Minute)}
	log := window{used: 5, reset: 60_000_000,
		entries: [][3]int64{{instant, instant + 60_000_000, 4}, {instant - 1, instant + 59_999_999, 1}}}
	places := window{used: 3, reset: 1, retry: -1, hidden: 2, entries: [][3]int64{{0, instant + 1, 1}}}
	good := inspectReply(7, instant, instant+9, 2, 3, log, places)
	shown, err := decodeInspect(limits, good)
	if err != nil {
		t.Fatal(err)
	}
	if !shown.Now.Equal(time.UnixMicro(instant)) || shown.Ban.Until.Sub(shown.Now) != 9*time.Microsecond ||
		shown.Ban.Level != 2 || shown.Ban.Strikes != 3 {
		t.Errorf("now %v, ban %+v", shown.Now, shown.Ban)
	}
	if w := shown.Windows[0]; *w.Limit != limits[0] || w.Used != 5 || len(w.Entries) != 2 || w.Entries[0].Units != 1 {
		t.Errorf("log %+v, want the older entry first", w)
	}
	if w := shown.Windows[1]; w.RetryAfter != stint.Never || w.LeftOut != 2 || len(w.Entries) != 1 ||
		!w.Entries[0].At.IsZero() {
		t.Errorf("places %+v", w)
	}
	for name, text := range map[string]string{
		"another call":     inspectReply(8, instant, 0, 0, 0, log, places),
		"another claim":    inspectReply(7, instant, 0, 0, 0, log),
		"short":            good[:len(good)-1],
		"long":             good + "x",
		"no clock":         inspectReply(7, 0, 0, 0, 0, log, places),
		"a negative level": inspectReply(7, instant, 0, -1, 0, log, places),
		"negative units":   inspectReply(7, instant, 0, 0, 0, log, window{entries: [][3]int64{{0, 0, -1}}}),
	} {
		if shown, err := decodeInspect(limits, text); !errors.Is(err, errReply) {
			t.Errorf("%s: %+v, error %v", name, shown, err)
		}
	}
}

func FuzzInspectReply(f *testing.F) {
	limits := []stint.Limit{stint.PerMinute(10)}
	f.Add(inspectReply(7, instant, 0, 0, 0, window{used: 1, entries: [][3]int64{{instant, instant, 1}}}))
	f.Add(inspectReply(7, instant, instant+1, 1, 1, window{retry: -1}))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		shown, err := decodeInspect(limits, text)
		if err != nil {
			if !errors.Is(err, errReply) {
				t.Fatal(err)
			}
			return
		}
		w := shown.Windows[0]
		if w.Used < 0 || w.RetryAfter < stint.Never || w.LeftOut < 0 || len(w.Entries) > driver.MaxEntries ||
			shown.Ban.Level < 0 {
			t.Fatalf("%x became %+v", text, shown)
		}
	})
}
