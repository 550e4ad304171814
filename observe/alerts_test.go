package observe

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/testkit"
)

// watchman is what alerts are told, second by second.
type watchman struct {
	*past
	*alerts
	surges  surges
	now     time.Time
	tick    Tick
	refused []string
	expires time.Duration // of a certificate, from now on; 0 is none
	dropped int64         // log records
}

func newWatchman(c AlertConfig) *watchman {
	return &watchman{
		past: newPast(), alerts: newAlerts(c, slog.New(slog.DiscardHandler)), now: time.Unix(epoch, 0),
		tick: Tick{Store: StoreHealth{Up: true}},
	}
}

// second lets a second go by, in which something happens, and returns the alerts.
func (w *watchman) second(happens func(*watchman)) (all []Alert, changed bool) {
	w.now = w.now.Add(time.Second)
	if happens != nil {
		happens(w)
	}
	w.pass(time.Second, 0, 0)
	r := read(w.now, w.history, &w.tick, w.known)
	r.surge, _ = w.surges.look(w.now, w.alerts, w.history)
	r.refused, r.dropped = w.refused, w.dropped
	if w.expires != 0 {
		r.expiring, r.expires = "certificate", w.now.Add(w.expires)
	}
	return w.evaluate(r)
}

// after returns the state of an alert after so much of the same.
func (w *watchman) after(t *testing.T, d time.Duration, alert string, happens func(*watchman)) Alert {
	t.Helper()
	var all []Alert
	for range int(d / time.Second) {
		all, _ = w.second(happens)
	}
	i := slices.IndexFunc(all, func(a Alert) bool { return a.Name == alert })
	if i < 0 {
		t.Fatalf("there is no alert %q", alert)
	}
	return all[i]
}

// decide makes decisions in a second, with no store involved.
func decide(allowed, denied int64) func(*watchman) {
	return func(w *watchman) {
		w.totals.Counts = w.totals.Counts.combine(Counts{Allowed: allowed, Denied: denied}, plus)
	}
}

// tiers makes decisions in a second: of a large tier, and of a small one with a policy.
func tiers(large, allowed, denied int64) func(*watchman) {
	return func(w *watchman) {
		decide(large+allowed, denied)(w)
		if len(w.totals.series) == 0 {
			w.totals.series = []Series{{Tier: "large"}, {Tier: "small"}, {Tier: "small", Policy: "api"}}
		}
		for i, c := range [...]Counts{{Allowed: large}, {Allowed: allowed}, {Denied: denied}} {
			w.totals.series[i].Total = w.totals.series[i].Total.combine(c, plus)
		}
	}
}

// every20 is something that happens every 20 seconds.
func every20(f func(*watchman)) func(*watchman) {
	return func(w *watchman) {
		if w.now.Unix()%20 == 0 {
			f(w)
		}
	}
}

// take makes decisions and store calls that take so long.
func take(n int64, decision, call time.Duration) func(*watchman) {
	return func(w *watchman) { w.took(n, decision, call) }
}

// call makes calls to the store.
func call(good, bad int64) func(*watchman) {
	return func(w *watchman) {
		w.totals.Calls += good + bad
		w.totals.CallsFailed += bad
	}
}

func down(w *watchman) {
	if w.tick.Store.DownSince == nil {
		since := w.now
		w.tick.Store.Up, w.tick.Store.DownSince = false, &since
	}
}

// fault is down, for a reason.
func fault(name string) func(*watchman) {
	return func(w *watchman) {
		down(w)
		f := errkind.FaultOf(name)
		w.tick.Store.Outage = &Outage{Since: *w.tick.Store.DownSince, Fault: f.Name, Is: f.Is, Why: f.Why, Fix: f.Fix,
			Error: "stint: take: " + name}
	}
}

func both(f, g func(*watchman)) func(*watchman) { return func(w *watchman) { f(w); g(w) } }

func up(w *watchman) { w.tick.Store = StoreHealth{Up: true} }

// mute has processes stop reporting.
func mute(names ...string) func(*watchman) {
	return func(w *watchman) {
		w.tick.Processes = []Process{{Name: "web-1/7", Self: true}}
		for _, name := range names {
			w.tick.Processes = append(w.tick.Processes, Process{Name: name, Silent: true})
		}
	}
}

// configure gives processes their configurations, this one first.
func configure(configs ...string) func(*watchman) {
	return func(w *watchman) {
		w.tick.Processes = nil
		for i, config := range configs {
			w.tick.Processes = append(w.tick.Processes,
				Process{Name: fmt.Sprintf("web-%d/7", i+1), Self: i == 0, Config: config})
		}
	}
}

// follow has another process lead.
func follow(w *watchman) {
	w.tick.Processes = []Process{{Name: "web-2/7", Self: true, Started: w.now}, {Name: "web-1/7"}}
}

func refuse(sources ...string) func(*watchman) { return func(w *watchman) { w.refused = sources } }

// expire has a certificate that expires after some time.
func expire(after time.Duration) func(*watchman) { return func(w *watchman) { w.expires = after } }

// drop drops log records.
func drop(n int64) func(*watchman) { return func(w *watchman) { w.dropped += n } }

func redis(info RedisInfo) func(*watchman) {
	return func(w *watchman) { w.tick.Store.Redis, w.tick.Store.At = &info, w.now }
}

// Every alert: a state of affairs that is fine, one that is not, what fires when, and how it ends.
func TestAlerts(t *testing.T) {
	testkit.SkipUnderRace(t)
	const ms = time.Millisecond
	type spell struct {
		lasts   time.Duration
		happens func(*watchman)
		want    string // state in the end
		value   float64
	}
	tests := []struct {
		alert  string
		spells []spell
	}{
		{"BlockedShare", []spell{
			{10 * time.Minute, decide(91, 9), "ok", 0.09},
			{34 * time.Second, decide(80, 20), "pending", 0},
			{60 * time.Second, decide(80, 20), "firing", 0},
			{10 * time.Minute, decide(80, 20), "firing", 0.2},
			{2 * time.Minute, decide(99, 1), "firing", 0.124},
			{90 * time.Second, decide(99, 1), "firing", 0.067}, // has just become fine
			{90 * time.Second, decide(99, 1), "ok", 0.01},
		}},
		{"BlockedShare", []spell{ // too few to tell
			{4 * time.Minute, nil, "ok", 0},
			{99 * time.Second, decide(0, 1), "ok", 0},
			{1 * time.Second, decide(0, 1), "pending", 1},
		}},
		{"LimiterSlow", []spell{
			{10 * time.Minute, take(10, 40*ms, ms), "ok", 40},
			{59 * time.Second, take(10, 60*ms, ms), "pending", 60},
			{2 * time.Minute, take(10, 60*ms, ms), "firing", 60},
			{6*time.Minute + 30*time.Second, take(10, 10*ms, ms), "ok", 10},
		}},
		{"LimiterSlow", []spell{{90 * time.Second, take(1, time.Second, ms), "ok", 0}}},
		{"ScriptSlow", []spell{
			{10 * time.Minute, take(10, 40*ms, 9*ms), "ok", 9},
			{59 * time.Second, take(10, 40*ms, 14*ms), "pending", 14},
			{2 * time.Minute, take(10, 40*ms, 14*ms), "firing", 14},
			{6*time.Minute + 30*time.Second, take(10, 10*ms, ms), "ok", 1},
		}},
		{"ScriptSlow", []spell{{90 * time.Second, take(1, time.Second, time.Second), "ok", 0}}},
		{"ScriptErrors", []spell{
			{10 * time.Minute, call(995, 5), "ok", 0.005},
			{10 * time.Minute, call(97, 3), "firing", 0.03},
			{7 * time.Minute, call(100, 0), "ok", 0},
		}},
		{"ScriptErrors", []spell{{90 * time.Second, call(0, 1), "ok", 0}}},
		{"ScriptErrors", []spell{ // an outage is StoreDown, and what failed in it is over when it ends
			{10 * time.Minute, call(100, 0), "ok", 0},
			{10 * time.Minute, both(down, call(2, 1)), "ok", 0},
			{29 * time.Second, both(up, call(3, 0)), "pending", 0},
			{10 * time.Minute, call(3, 0), "ok", 0},
		}},
		{"StoreDown", []spell{
			{10 * time.Minute, nil, "ok", 0},
			{50 * time.Second, down, "pending", 49},
			{10 * time.Second, up, "ok", 0},
			{60 * time.Second, down, "pending", 59},
			{2 * time.Second, down, "firing", 61},
			{10 * time.Minute, down, "firing", 661},
			{time.Second, up, "ok", 0},
		}},
		{"Spike", []spell{
			{time.Hour, decide(20, 0), "ok", 1},
			{30 * time.Second, decide(90, 0), "ok", 0},
			{30 * time.Second, decide(20, 0), "ok", 0},
			{60 * time.Second, decide(300, 0), "firing", 0},
			{60 * time.Second, decide(20, 0), "firing", 0}, // has just ended
			{60 * time.Second, decide(20, 0), "ok", 0},
		}},
		{"Spike", []spell{ // what is usual stays the same for an hour
			{time.Hour, decide(20, 0), "ok", 1},
			{59 * time.Minute, decide(180, 0), "firing", 9},
			{3 * time.Minute, decide(180, 0), "ok", 1},
		}},
		{"Spike", []spell{ // one process of several reports it for all
			{14 * time.Minute, both(decide(20, 0), configure("same", "same")), "ok", 1},
			{2 * time.Minute, decide(180, 0), "firing", 9},
		}},
		{"Spike", []spell{
			{14 * time.Minute, both(decide(20, 0), follow), "ok", 0},
			{2 * time.Minute, decide(180, 0), "ok", 0},
		}},
		{"Spike", []spell{ // when too little is known of the past
			{8 * time.Minute, decide(10, 0), "ok", 0},
			{59 * time.Second, decide(1000, 0), "ok", 0},
		}},
		{"Spike", []spell{ // hardly any came in the hour before
			{14 * time.Minute, nil, "ok", 0},
			{time.Minute, decide(100, 0), "ok", 0},
		}},
		{"DenialJump", []spell{
			{time.Hour, decide(98, 2), "ok", 1},
			{30 * time.Second, decide(90, 10), "ok", 3},
			{10 * time.Second, decide(0, 100), "firing", 0},
			{time.Minute, decide(98, 2), "firing", 0}, // has just ended
			{time.Minute, decide(98, 2), "ok", 0},
		}},
		{"DenialJump", []spell{ // a flood of a hundred times the usual traffic
			{14 * time.Minute, decide(5, 0), "ok", 0},
			{5 * time.Second, decide(5, 500), "firing", 0},
		}},
		{"DenialJump", []spell{ // too few to tell
			{14 * time.Minute, decide(1, 0), "ok", 0},
			{time.Minute, decide(0, 1), "ok", 0},
		}},
		{"DenialJump", []spell{ // at the start, nothing is known of the past
			{time.Minute, decide(0, 100), "ok", 0},
			{8 * time.Minute, decide(100, 0), "ok", 0},
			{30 * time.Second, decide(0, 100), "ok", 0},
		}},
		{"DenialJump", []spell{ // hardly anybody came in the hour before
			{14 * time.Minute, nil, "ok", 0},
			{time.Minute, decide(0, 100), "ok", 0},
		}},
		{"DenialJump", []spell{ // a limit of a small tier is lowered: of all decisions hardly more are denied
			{14 * time.Minute, tiers(1000, 10, 0), "ok", 0},
			{20 * time.Second, tiers(1000, 5, 5), "firing", 100. * 100 / 600},
			{2 * time.Minute, tiers(1000, 10, 0), "ok", 0},
		}},
		{"DenialJump", []spell{ // a tier with three requests a minute says nothing, whatever is denied
			{14 * time.Minute, both(tiers(1000, 0, 0), every20(tiers(0, 1, 0))), "ok", 0},
			{5 * time.Minute, both(tiers(1000, 0, 0), every20(tiers(0, 0, 1))), "ok", 0},
		}},
		{"DenialJump", []spell{ // nor do fewer than 20 denials in a minute: one client that retries
			{14 * time.Minute, tiers(1000, 3, 0), "ok", 0},
			{time.Minute, both(tiers(1000, 3, 0), every20(tiers(0, 0, 6))), "ok", 0},
		}},
		{"DenialJump", []spell{
			{14 * time.Minute, tiers(1000, 3, 0), "ok", 0},
			{time.Minute, both(tiers(1000, 3, 0), every20(tiers(0, 0, 7))), "firing", 0},
		}},
		{"CertificateExpires", []spell{
			{time.Second, nil, "ok", 0},
			{time.Second, expire(15 * 24 * time.Hour), "ok", 15},
			{time.Second, expire(13 * 24 * time.Hour), "firing", 13},
			{time.Second, expire(-time.Hour), "firing", 1. / 86400},
			{time.Second, expire(90 * 24 * time.Hour), "ok", 90},
		}},
		{"ConfigDiffers", []spell{
			{time.Minute, configure("policies 1", "policies 1", "policies 1"), "ok", 0},
			{59 * time.Second, configure("policies 2", "policies 1", "policies 1"), "pending", 1},
			{2 * time.Second, configure("policies 2", "policies 1", "policies 1"), "firing", 1},
			{time.Second, configure("policies 2", "policies 2", "policies 2"), "ok", 0},
		}},
		{"RedisMemory", []spell{
			{time.Minute, redis(RedisInfo{MemoryShare: 0.89}), "ok", 0.89},
			{59 * time.Second, redis(RedisInfo{MemoryShare: 0.91}), "pending", 0.91},
			{2 * time.Second, redis(RedisInfo{MemoryShare: 0.91}), "firing", 0.91},
			{time.Minute, redis(RedisInfo{MemoryShare: 0.5}), "firing", 0.5},
			{time.Second, redis(RedisInfo{MemoryShare: 0.5}), "ok", 0.5},
		}},
		{"RedisMemory", []spell{{2 * time.Minute, redis(RedisInfo{UsedMemory: 1 << 40}), "ok", 0}}}, // any amount
		{"RedisMemory", []spell{ // it is full, and says so while every call fails
			{time.Minute, redis(RedisInfo{MemoryShare: 0.89}), "ok", 0.89},
			{61 * time.Second, both(down, redis(RedisInfo{MemoryShare: 1.01})), "firing", 1.01},
		}},
		{"RedisMemory", []spell{ // it is full, and may not say how full
			{time.Minute, nil, "ok", 0},
			{61 * time.Second, fault(errkind.Full), "firing", 1},
		}},
		{"RedisMemory", []spell{ // what it said is out of date
			{30 * time.Second, redis(RedisInfo{MemoryShare: 0.95}), "pending", 0.95},
			{10 * time.Second, down, "ok", 0},
		}},
		{"RedisCPU", []spell{
			{time.Minute, redis(RedisInfo{CPUShare: 0.79}), "ok", 0.79},
			{59 * time.Second, redis(RedisInfo{CPUShare: 0.9}), "pending", 0.9},
			{2 * time.Second, redis(RedisInfo{CPUShare: 0.9}), "firing", 0.9},
			{61 * time.Second, redis(RedisInfo{}), "ok", 0},
		}},
		{"ProcessSilent", []spell{
			{time.Minute, nil, "ok", 0},
			{time.Second, mute("web-2/7"), "firing", 1},
			{10 * time.Minute, mute("web-2/7", "web-3/7"), "firing", 2},
			{time.Second, mute(), "ok", 0},
		}},
		{"ConfigRefused", []spell{
			{time.Minute, nil, "ok", 0},
			{time.Second, refuse("policies"), "firing", 1},
			{10 * time.Minute, refuse("policies", "envoy"), "firing", 2},
			{time.Second, refuse(), "ok", 0},
		}},
		{"LogDropped", []spell{
			{time.Minute, nil, "ok", 0},
			{time.Second, drop(3), "firing", 3},
			{time.Minute, drop(5), "firing", 5},
			{time.Minute, nil, "firing", 0}, // has just ended
			{time.Second, nil, "ok", 0},
		}},
		{"EvictingRedis", []spell{
			{time.Minute, redis(RedisInfo{MaxMemory: 1 << 30, Policy: "noeviction"}), "ok", 0},
			{time.Minute, redis(RedisInfo{Policy: "allkeys-lru"}), "ok", 0},
			{time.Second, redis(RedisInfo{MaxMemory: 1 << 30, Policy: "volatile-lru"}), "firing", 1},
			{10 * time.Minute, redis(RedisInfo{MaxMemory: 1 << 30, Policy: "allkeys-lru"}), "firing", 1},
			{time.Second, redis(RedisInfo{MaxMemory: 1 << 30, Policy: "noeviction"}), "ok", 0},
		}},
	}
	tested := map[string]bool{}
	for _, test := range tests {
		tested[test.alert] = true
		t.Run(test.alert, func(t *testing.T) {
			w := newWatchman(AlertConfig{})
			for i, s := range test.spells {
				got := w.after(t, s.lasts, test.alert, s.happens)
				if got.State != s.want || s.value != 0 && math.Abs(got.Value/s.value-1) > 0.1 {
					t.Errorf("spell %d: %s with %v; want %s with %v", i, got.State, got.Value, s.want, s.value)
				}
			}
		})
	}
	for _, name := range alertNames() {
		if !tested[name] {
			t.Errorf("%s is not tested", name)
		}
	}
}

// A pending alert says how long its condition has lasted and when it fires, and claims nothing that
// has not happened yet.
func TestPendingAlertsSayWhatIsSo(t *testing.T) {
	w := newWatchman(AlertConfig{})
	for _, step := range []struct {
		lasts           time.Duration
		alert           string
		happens         func(*watchman)
		state, has, not string
	}{
		{time.Minute, "StoreDown", nil, "ok", "down for more than 60 s", "has been down for 9 s"},
		{10 * time.Second, "StoreDown", down, "pending", "has been down for 9 s, and decisions are made according to the failure mode. The alert fires after 60 s.", "more than"},
		{time.Second, "StoreDown", fault(errkind.Silent), "pending", "has been down for 10 s,", "more than"},
		{time.Minute, "StoreDown", fault(errkind.Silent), "firing", "has been down for more than 60 s", "fires after"},
		{time.Second, "StoreDown", fault(errkind.Silent), "firing", "It accepts connections but does not answer. Its process is stopped", "see the last"},
		{time.Second, "StoreDown", fault(errkind.Full), "firing", "CONFIG SET maxmemory", "kill -CONT"},
		{time.Second, "StoreDown", fault(errkind.Full), "firing", "Last error: stint: take: full", "silent"},
		{time.Second, "StoreDown", up, "ok", "down for more than 60 s", "fires after"},
		{10 * time.Second, "RedisCPU", redis(RedisInfo{CPUShare: 0.9}), "pending",
			"more than 80% of the time", "fires after 80"},
		{time.Second, "RedisCPU", redis(RedisInfo{CPUShare: 0.9}), "pending", "This has lasted for 10 s; the alert fires after 60 s.", ""},
		{time.Minute, "RedisCPU", redis(RedisInfo{CPUShare: 0.9}), "firing", "more than 80% of the time", "fires"},
		{time.Second, "ConfigRefused", refuse("policies"), "firing", "Refused: policies.", ""},
	} {
		got := w.after(t, step.lasts, step.alert, step.happens)
		if got.State != step.state || !strings.Contains(got.Summary, step.has) ||
			step.not != "" && strings.Contains(got.Summary, step.not) {
			t.Errorf("%s: %s, %q; want %s, with %q and without %q", step.alert, got.State, got.Summary, step.state,
				step.has, step.not)
		}
	}
	w.second(redis(RedisInfo{}))
	if _, changed := w.second(redis(RedisInfo{})); changed {
		t.Error("an alert that fires and has not changed is reported")
	}
	if got := w.after(t, time.Second, "CertificateExpires", expire(24*time.Hour)); !strings.Contains(got.Summary, " The certificate expires on 2023-11-15T") {
		t.Errorf("got %q, want when it expires", got.Summary)
	}
}

func TestAlertsThatAreSet(t *testing.T) {
	w := newWatchman(AlertConfig{Thresholds: map[string]float64{"BlockedShare": 0.5, "StoreDown": 10,
		"Spike": math.Inf(1)}, For: 2 * time.Second})
	if got := w.after(t, 5*time.Minute, "BlockedShare", decide(60, 40)); got.State != "ok" || got.Threshold != 0.5 {
		t.Errorf("at a share of 0.4: %+v", got)
	}
	got := w.after(t, 5*time.Minute, "BlockedShare", decide(40, 60))
	if got.State != "firing" || !strings.Contains(got.Summary, "50%") {
		t.Errorf("at a share of 0.6: %+v", got)
	}
	if got := w.after(t, 12*time.Second, "StoreDown", down); got.State != "firing" {
		t.Errorf("down for twelve seconds: %+v", got)
	}
	all, _ := w.second(nil)
	if slices.ContainsFunc(all, func(a Alert) bool { return a.Name == "Spike" }) {
		t.Error("an alert that is off is listed")
	}
}
