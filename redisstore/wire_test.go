package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// twoClaims is a request with three limits on two subjects.
func twoClaims() stint.Request {
	return stint.Request{
		Claim: stint.Claim{Subject: "user:1", Limits: []stint.Limit{stint.PerMinute(10), stint.PerHour(100)}, Cost: 1},
		And:   []stint.Claim{{Subject: "route:/x", Limits: []stint.Limit{stint.PerSecond(5)}, Cost: 1}},
	}
}

// reply packs what take.lua would say.
func reply(call uint64, now int64, flags, decider byte, retry, at int64, states ...int64) string {
	b := be.AppendUint64(nil, call)
	b = appendInt(b, now)
	b = append(b, flags, decider)
	b = appendInt(b, retry)
	b = appendInt(b, at)
	b = appendInt(b, min(at, 1)) // units
	b = append(b, byte(len(states)/3))
	for _, v := range states {
		b = appendInt(b, v)
	}
	return string(b)
}

// decodeTake reads the reply of take.lua to a request.
func decodeTake(reply string, call uint64, r *stint.Request) (stint.Decision, error) {
	in, _, err := opening(reply, call)
	if err != nil {
		return stint.Decision{}, err
	}
	d, _, err := in.decision(r, call)
	if err == nil {
		err = in.end()
	}
	return d, err
}

const instant = 1_790_000_000_000_000

func TestDecodeTake(t *testing.T) {
	r := twoClaims()
	text := reply(7, instant, 0, 1, 250_000, 0 /* user */, 3, 60_000_000, 0, 4, 3_600_000_000, 0 /* route */, 5, 1_000_000, 250_000)
	d, err := decodeTake(text, 7, &r)
	if err != nil {
		t.Fatal(err)
	}
	if d.Allowed || d.Key() != "route:/x" || d.RetryAfter != 250*time.Millisecond || d.Charge.ID != 0 {
		t.Errorf("decision %+v", d)
	}
	if got := d.Limit(); got != stint.PerSecond(5) {
		t.Errorf("decided by %v, want 5/1s", got)
	}
	if got := d.States()[0]; got.Used != 3 || got.ResetAfter != time.Minute || got.Remaining() != 7 {
		t.Errorf("first state %+v", got)
	}
}

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
		"no clock":              reply(7, 0, 1, 0, 0, instant, 1, 1, 0, 1, 1, 0, 1, 1, 0),
		"text instead of bytes": "OK",
	} {
		r := twoClaims()
		if d, err := decodeTake(text, 7, &r); !errors.Is(err, ErrReply) {
			t.Errorf("%s: decision %+v, error %v", name, d, err)
		}
	}
	r := twoClaims()
	if _, err := decodeTake(good, 7, &r); err != nil {
		t.Errorf("the good reply: %v", err)
	}
	if _, err := decodeAmend(reply(7, instant, 1, 0, 0, 0), 7); !errors.Is(err, ErrReply) {
		t.Errorf("amend: error %v", err)
	}
	if err := decodeCommand("OK", 7); !errors.Is(err, ErrReply) {
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
			if inside := serverError(""); !errors.Is(err, ErrReply) && err != errLate && !errors.As(err, &inside) {
				t.Fatal(err)
			}
			return
		}
		if len(d.States()) != 3 || d.RetryAfter < stint.Never || d.Allowed && d.Banned {
			t.Fatalf("%x became %+v", text, d)
		}
		for _, s := range d.States() {
			if s.Limit == nil || s.Used < 0 || s.ResetAfter < stint.Never || s.RetryAfter < stint.Never {
				t.Fatalf("%x became %+v", text, s)
			}
		}
	})
}

// decide.lua, log.lua and inspect.lua read and write the same head.
func TestScriptsAgreeOnTheLayout(t *testing.T) {
	lines := map[string]string{}
	for _, name := range []string{"decide", "log", "inspect"} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "local HEAD, HEAD_FORMAT") {
				lines[name] = line
			}
		}
	}
	if lines["decide"] == "" || lines["decide"] != lines["log"] || lines["decide"] != lines["inspect"] {
		t.Errorf("heads differ: %q", lines)
	}
	format := strings.Split(lines["decide"], "'")[1]
	for _, entry := range []string{"c0I7I1", "c0I7I4", "c0I7I7"} {
		if !strings.Contains(takeScript.source, "'"+format+entry+"'") {
			t.Errorf("no entry is written as %s after the head", entry)
		}
	}
}

// Script calls are bounded, by their runs and by their keys.
func TestChunks(t *testing.T) {
	s := newTestKeys()
	few := stint.Request{Claim: stint.Claim{Subject: "a", Limits: []stint.Limit{stint.PerHour(1)}}}
	many := stint.Request{
		Claim: stint.Claim{Subject: "a", Limits: make([]stint.Limit, 16)}, ID: "x", Bans: &stint.BanPolicy{},
		And: []stint.Claim{{Subject: "b", Limits: make([]stint.Limit, 9)}},
	}
	for _, test := range []struct {
		r    stint.Request
		want []int
	}{
		{few, []int{128, 128, 44}},
		{many, []int{34, 34, 34, 34, 34, 34, 34, 34, 28}}, // 30 keys each
	} {
		k := keys{store: s}
		k.ofRequest(&test.r)
		if n := keysOf(&test.r); n != len(k.ends) {
			t.Errorf("%d keys are counted and %d made", n, len(k.ends))
		}
		var got []int
		for chunk := range chunks(slices.Repeat([]run{{calls: []*stint.Call{{Request: test.r}}}}, 300)) {
			got = append(got, len(chunk))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("chunks of %d, want %d", got, test.want)
		}
	}
}

func newTestKeys() *Store {
	s := &Store{prefix: "stint"}
	s.identities.Store(&map[identity]string{})
	return s
}
