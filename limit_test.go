package stint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// texts are limits as users write them, and the text that String returns.
var texts = []struct {
	text string
	want stint.Limit
	back string // the result of String; "" if it is text
}{
	{"100/1m", stint.PerMinute(100), ""},
	{"100/m", stint.PerMinute(100), "100/1m"},
	{"4/s", stint.PerSecond(4), "4/1s"},
	{"40/10s", stint.Per(40, 10*time.Second), ""},
	{"180/60s", stint.PerMinute(180), "180/1m"},
	{"1000/24h", stint.PerDay(1000), "1000/1d"},
	{"5/1d12h", stint.Per(5, 36*time.Hour), ""},
	{"5/36h", stint.Per(5, 36*time.Hour), "5/1d12h"},
	{"7/1h30m", stint.Per(7, 90*time.Minute), ""},
	{"7/1m30s", stint.Per(7, 90*time.Second), ""},
	{"2/1.5ms", stint.Per(2, 1500*time.Microsecond), ""},
	{"0/1h", stint.PerHour(0), ""},
	{"9007199254740992/1s", stint.PerSecond(stint.MaxUnits), ""},
	{"1/366d", stint.Per(1, stint.MaxWindow), ""},
	{"10/1m burst 2x", stint.PerMinute(10).BurstTimes(2), ""},
	{" 10/1m   burst  2x ", stint.PerMinute(10).BurstTimes(2), "10/1m burst 2x"},
	{"login: 5/15m", stint.Per(5, 15*time.Minute).WithName("login"), ""},
	{"10/1s burst 25 bucket", stint.TokenBucket(25, 10, time.Second), ""},
	{"10/1s burst 3x bucket", stint.TokenBucket(30, 10, time.Second), ""},
	{"20/30s concurrency", stint.Concurrency(20, 30*time.Second), ""},
	{"100/1m fixed", stint.Limit{Max: 100, Window: time.Minute, Algorithm: stint.AlgorithmFixed}, ""},
	{"100000/1m leased", stint.PerMinute(100_000).WithLease(), ""},
	{"123457/1d burst 2x", stint.PerDay(123_457).BurstTimes(2), ""},
	{"100/1m burst 1x", stint.Limit{Max: 100, Window: time.Minute, Burst: 100}, ""},
	{"100/1m sliding", stint.PerMinute(100), "100/1m"},
	{"10000/month", stint.Monthly(10_000), ""},
	{"50/day in Europe/Berlin", stint.Daily(50).In("Europe/Berlin"), ""},
	{"1000/week from sunday in America/New_York", stint.Weekly(1000).From(time.Sunday).In("America/New_York"), ""},
	{"7/week from Monday", stint.Weekly(7).From(time.Monday), "7/week from monday"},
	{"5000000/month on 17", stint.Monthly(5_000_000).On(17), ""},
	{"mail: 100000/year in UTC leased", stint.Yearly(100_000).In("UTC").WithName("mail").WithLease(), ""},
}

func TestParseLimit(t *testing.T) {
	for _, test := range texts {
		got, err := stint.ParseLimit(test.text)
		if err != nil || got != test.want {
			t.Errorf("%q: %+v, %v; want %+v", test.text, got, err, test.want)
			continue
		}
		back := test.back
		if back == "" {
			back = test.text
		}
		if got.String() != back {
			t.Errorf("%q reads back as %q, want %q", test.text, got, back)
		}
	}
}

// mistakes are texts that ParseLimit rejects. tells is part of the error.
var mistakes = []struct{ text, tells string }{
	{"", "units/window"},
	{"100", "no window"},
	{"/1m", "whole number"},
	{"-1/1m", "a maximum of -1; want 0 to 9007199254740992"},
	{"+1/1m", "whole number"},
	{"1.5/1m", "whole number"},
	{"1e3/1m", "whole number"},
	{"NaN/1m", "whole number"},
	{"9007199254740993/1m", "a maximum of 9007199254740993"},
	{"99999999999999999999/1m", "whole number"},
	{"10/", "duration"},
	{"10/0s", "a window of 0s"},
	{"10/-1m", "duration"},
	{"10/1µs", "a window of 1µs; want 1ms"},
	{"10/1000001ns", "whole microseconds"},
	{"10/367d", "366 days"},
	{"10/9999999999h", "duration"},
	{"10/1x", "duration"},
	{"10/minute", `: write 10/1m`},
	{"10 per 100ms", `: write 10/100ms`},
	{"10/100 ms", `: write 10/100ms`},
	{"10 per ms", `: write 10/1ms`},
	{"login: 10 per minute", `: write login: 10/1m`},
	{"100/hours burst 2x", `: write 100/1h burst 2x`},
	{"10/5 Minutes", `: write 10/5m`},
	{"10 per 30secs bucket", `: write 10/30s bucket`},
	{"10/days", `: write 10/1d`},
	{"10/hour", `: write 10/1h`},
	{"10/month on 32", `it starts on day 32; want a day of the month, 1 to 31`},
	{"10/month on 0", `it starts on day -1; want a day of the month`},
	{"10/month on", `"on" without a day`},
	{"10/month from sunday", `"from" after a period of the calendar`},
	{"10/week from someday", `want "from sunday"`},
	{"10/day on 3", `"on" after a period of the calendar`},
	{"10/year in Berlin", `unknown time zone "Berlin"; want a name such as Europe/Berlin`},
	{"10/year in Local", `unknown time zone "Local"`},
	{"10/month in", `"in" without a time zone`},
	{"10/month burst 2x", `"burst" after a period of the calendar`},
	{"10/month fixed", `"fixed" after a period of the calendar`},
	{"10/minute brust 2x", "duration"},
	{"10/fortnight", "duration"},
	{"10/1m burst", "without a size"},
	{"10/1m burst 0x", "at least 1"},
	{"10/1m burst -2x", "burst"},
	{"10/1m burst 101x", "at most 100 times"},
	{"10/1m burst 15", "multiple of the maximum of 10"},
	{"10/1m burst 9007199254740992x", "a burst of"},
	{"10/1m burst 2x fixed", "a fixed limit has none"},
	{"10/1m leaky", "unknown word"},
	{"10/1m fixed please", "after the limit"},
	{": 10/1m", "name before the colon is empty"},
	{"a b: 10/1m", "the name"},
	{"a: b: 10/1m", "no window"},
	{"99999999989/366d burst 1x bucket", "rounder rate"},
	{
		"90071992547401/1001ms burst 2x",
		"a burst of 180143985094802 refilled at 90071992547401 per 1.001s cannot be counted exactly; want a rounder rate or window",
	},
	{"1/366d burst 101 bucket", "full again"},
}

func TestParseLimitMistakes(t *testing.T) {
	for _, test := range mistakes {
		l, err := stint.ParseLimit(test.text)
		wantMistake(t, test.text, err, test.tells, "stint: invalid: limit ")
		if strings.Count(fmt.Sprint(err), "stint: ") > 1 {
			t.Errorf("%q: %v; want it to name the package once", test.text, err)
		}
		wantMistake(t, test.text, l.UnmarshalText([]byte(test.text)), test.tells)
	}
}

func TestLimitAsJSON(t *testing.T) {
	in := map[string]stint.Limit{"api": stint.PerMinute(10).BurstTimes(2)}
	text, err := json.Marshal(in)
	if err != nil || string(text) != `{"api":"10/1m burst 2x"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var out map[string]stint.Limit
	if err := json.Unmarshal(text, &out); err != nil || out["api"] != in["api"] {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"api":"10"}`), &out); err == nil {
		t.Error("a limit without a window was accepted")
	}
}

func TestIdentity(t *testing.T) {
	a := stint.PerMinute(10)
	for _, test := range []struct {
		b    stint.Limit
		same bool
	}{
		{stint.PerMinute(20), true},
		{stint.PerMinute(10).BurstTimes(3), true},
		{stint.PerHour(10), false},
		{stint.PerMinute(10).WithName("login"), false},
		{stint.TokenBucket(10, 10, time.Minute), false},
	} {
		if contract.SameID(&a, &test.b) != test.same || (a.ID() == test.b.ID()) != test.same {
			t.Errorf("%v and %v: same %v, want %v (%s, %s)", a, test.b, !test.same, test.same, a.ID(), test.b.ID())
		}
	}
}

// The tick of a meter is the finest one with which the weight of the capacity is exact.
func TestMeter(t *testing.T) {
	for _, test := range []struct {
		text             string
		unit, rate, tick int64
	}{
		{"10/1m burst 2x", 6_000_000, 1, 1},
		{"500/1m burst 5x", 120_000, 1, 1},
		{"123457/1d burst 2x", 86_400_000, 123_457, 1000},
		{"7/1s burst 20 bucket", 1_000_000, 7, 1},
		{"99999999989/366d burst 1x bucket", 0, 0, 0}, // the weight is too large even with ticks of a second
		{"0/1s bucket", 1, 0, 1},
		{"10/1m", 0, 0, 0},
		{"10/1m fixed", 0, 0, 0},
	} {
		l, err := stint.ParseLimit(test.text)
		if unit, rate, tick := l.Meter(); unit != test.unit || rate != test.rate || tick != test.tick {
			t.Errorf("%+v: unit %d, rate %d, tick %d (%v)", test, unit, rate, tick, err)
		}
	}
}

func TestStartsOfOtherPeriods(t *testing.T) {
	for _, l := range []stint.Limit{
		stint.Monthly(1).From(time.Sunday), stint.Weekly(1).On(3), stint.Daily(1).On(1), stint.Yearly(1).From(time.Monday),
		stint.Monthly(1).On(32), stint.Monthly(1).On(0), stint.Monthly(1).On(-300), stint.PerHour(1).On(1),
	} {
		wantMistake(t, l, l.Validate(), "start")
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, test := range texts {
		f.Add(test.text)
	}
	for _, test := range mistakes {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := stint.ParseLimit(text)
		if err != nil {
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q became the invalid %+v: %v", text, l, err)
		}
		back, err := stint.ParseLimit(l.String())
		if err != nil || back != l {
			t.Fatalf("%q became %+v, which reads back from %q as %+v, %v", text, l, l, back, err)
		}
	})
}

// Validation is on the request path, so a valid request must not allocate.
func TestValidateDoesNotAllocate(t *testing.T) {
	r := stint.Request{
		Claims: []stint.Claim{{Subject: "a",
			Limits: []stint.Limit{
				stint.PerMinute(10).BurstTimes(2),
				stint.TokenBucket(5, 1, time.Second),
			}, Cost: 1}, {Subject: "b", Limits: []stint.Limit{stint.PerHour(5).WithName("n")}, Cost: 1}},
		Bans: &stint.BanPolicy{After: 3, Within: time.Minute, Durations: []time.Duration{time.Minute}},
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
