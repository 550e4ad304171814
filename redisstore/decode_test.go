package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// twoClaims is a request with three limits on two subjects.
func twoClaims() stint.Request {
	return stint.Request{Claims: []stint.Claim{
		{Subject: "user:1", Limits: []stint.Limit{stint.PerMinute(10), stint.PerHour(100)}, Cost: 1},
		{Subject: "route:/x", Limits: []stint.Limit{stint.PerSecond(5)}, Cost: 1},
	}}
}

// reply packs what take.lua would say to twoClaims.
func reply(call uint64, now int64, flags, decider byte, retry, at int64, states ...int64) string {
	b := le.AppendUint64(nil, call)
	b = appendInt(b, now)
	b = append(b, flags, decider+1)
	b = appendInt(b, retry)
	b = appendInt(b, at)
	b = appendInt(b, min(at, 1)) // units
	for i, v := range states {
		if i == 0 || i == 6 {
			b = le.AppendUint32(b, 99) // generation
		}
		b = appendInt(b, v)
	}
	return string(b)
}

// decodeTake reads the reply of take.lua to a request.
func decodeTake(reply string, call uint64, r *stint.Request) (stint.Decision, error) {
	runs := []run{{calls: []*driver.Call{{Request: *r}}}}
	c, err := callOfTests(nil).store.encodeTake(runs, call)
	if err == nil {
		_, err = c.decodeTake(reply)
	}
	if err != nil {
		return stint.Decision{}, err
	}
	return runs[0].calls[0].Decision, runs[0].calls[0].Err
}

const instant = 1_790_000_000_000_000

func TestRepliesOfOtherCallsAreRefused(t *testing.T) {
	good := reply(7, instant, 1, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0)
	for name, text := range map[string]string{
		"another call":          reply(8, instant, 1, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"another request":       reply(7, instant, 1, 0, 0, instant, 1, 1, 0),
		"empty":                 "",
		"short":                 good[:len(good)-1],
		"long":                  good + "x",
		"an unknown flag":       reply(7, instant, 9, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"banned and allowed":    reply(7, instant, 5, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"denied but charged":    reply(7, instant, 0, 0, 5, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"an unknown claim":      reply(7, instant, 1, 2, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"a negative count":      reply(7, instant, 1, 0, 0, instant, -1, 1, 0, 1, 1, 0, 1, 1, 0),
		"a duration too long":   reply(7, instant, 1, 0, 0, instant, 1, 1<<54, 0, 1, 1, 0, 1, 1, 0),
		"a negative retry":      reply(7, instant, 0, 0, -2, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"a reset without end":   reply(7, instant, 1, 0, 0, instant, 1, -1, 0, 1, 1, 0, 1, 1, 0),
		"no clock":              reply(7, 0, 1, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"text instead of bytes": "OK",
	} {
		r := twoClaims()
		if d, err := decodeTake(text, 7, &r); !errors.Is(err, errReply) {
			t.Errorf("%s: decision %+v, error %v", name, d, err)
		}
	}
	r := twoClaims()
	if _, err := decodeTake(good, 7, &r); err != nil {
		t.Errorf("the good reply: %v", err)
	}
	amendment := []*amending{{}}
	if _, err := callOfTests(nil).decodeAmend(amendment, reply(7, instant, 1, 0, 0, 0)); !errors.Is(err, errReply) {
		t.Errorf("amend: error %v", err)
	}
	if err := callOfTests(nil).decodeCommand("OK"); !errors.Is(err, errReply) {
		t.Errorf("command: error %v", err)
	}
}

func FuzzReply(f *testing.F) {
	f.Add(reply(7, instant, 1, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0))
	f.Add(reply(7, instant, 0, 1, -1, 0, 1, 1, 0, 1, 1, 0, 1, 1, -1))
	f.Add(reply(7, instant, 4, 1, 60_000_000, 0, 1, 1, 0, 1, 1, 0, 1, 1, -1))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		r := twoClaims()
		d, err := decodeTake(text, 7, &r)
		if err != nil {
			if inside := serverError(""); !errors.Is(err, errReply) && err != errLate && !errors.As(err, &inside) {
				t.Fatal(err)
			}
			return
		}
		if len(d.States()) != 3 || d.RetryAfter < 0 || d.Allowed && d.Banned {
			t.Fatalf("%x became %+v", text, d)
		}
		for _, s := range d.States() {
			if s.Limit == nil || s.Used < 0 || s.ResetAfter < 0 || s.ResetAfter == stint.Never || s.RetryAfter < 0 {
				t.Fatalf("%x became %+v", text, s)
			}
		}
	})
}

// Script calls are bounded, by their runs and by their parts.
func TestChunks(t *testing.T) {
	few := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerHour(1)}}}}
	many := stint.Request{ID: "x", Bans: &stint.BanPolicy{}, Claims: []stint.Claim{
		{Subject: "a", Limits: make([]stint.Limit, 16)}, {Subject: "b", Limits: make([]stint.Limit, 9)}}}
	for _, test := range []struct {
		r    stint.Request
		want []int
	}{
		{few, slices.Concat(slices.Repeat([]int{128}, 2), []int{44})},
		{many, slices.Repeat([]int{5}, 60)}, // of up to 25 parts each
	} {
		var got []int
		for runs := slices.Repeat([]run{{calls: []*driver.Call{{Request: test.r}}}}, 300); len(runs) > 0; {
			n := firstChunk(runs)
			got = append(got, n)
			runs = runs[n:]
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("chunks of %d, want %d", got, test.want)
		}
	}
}

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

func TestInspectionsOfOtherCallsAreRefused(t *testing.T) {
	limits := []stint.Limit{stint.PerMinute(10), stint.Concurrency(2, time.Minute)}
	log := window{used: 5, reset: 60_000_000,
		entries: [][3]int64{{instant, instant + 60_000_000, 4}, {instant - 1, instant + 59_999_999, 1}}}
	places := window{used: 3, reset: 1, retry: -1, hidden: 2, entries: [][3]int64{{0, instant + 1, 1}}}
	good := inspectReply(7, instant, instant+9, 2, 3, log, places)
	testkit.Must(decodeInspect(limits, good))(t)
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
		if w.Used < 0 || w.RetryAfter < 0 || w.LeftOut < 0 || len(w.Entries) > driver.MaxEntries ||
			shown.Ban.Level < 0 {
			t.Fatalf("%x became %+v", text, shown)
		}
	})
}
