package observe_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// table is the store through which processes share what they count. It counts what they write.
type table struct {
	*memorystore.Store

	// hashed makes it a store whose keys hold no names.
	hashed  bool
	away    atomic.Bool
	written atomic.Int64
	named   atomic.Bool // a row has named the client
}

func (k *table) StoredName(subject string) string {
	if !k.hashed {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	kind, _, _ := strings.Cut(subject, ":")
	return kind + "#" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (k *table) Keep(ctx context.Context, name string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	for _, r := range rows {
		k.written.Add(int64(len(r.Name) + len(r.Text)))
		if strings.Contains(r.Text, client.String()) {
			k.named.Store(true)
		}
	}
	if k.away.Load() {
		return 0, errors.New("away")
	}
	return k.Store.Keep(ctx, name, rows, seen, missing)
}

const shadowed = `
tiers: [{name: anyone, identity: [user, ip], limits: 5/1h}]
policies: [{name: trial, match: {path: /trial}, limits: 2/1h, shadow: true}]
`

// TestFleet: two processes that decide by themselves show what both have counted, and each of them.
func TestFleet(t *testing.T) {
	testkit.InBubble(t, "names", func(t *testing.T) { fleet(t, false) })
	testkit.InBubble(t, "hashes", func(t *testing.T) { fleet(t, true) })
}

func fleet(t *testing.T, hashed bool) {
	shared := &table{Store: guardtest.Memory(t), hashed: hashed}
	one, oneGuard := watched(t, shadowed)
	two, twoGuard := watched(t, shadowed)
	ask(t, twoGuard, 3, get("/before")) // which has no second
	defer two.Share(shared)()
	time.Sleep(10 * time.Second)
	leave := one.Share(shared)
	time.Sleep(5 * time.Second)
	ask(t, oneGuard, 8, get("/"))
	ask(t, twoGuard, 4, get("/"))
	ask(t, twoGuard, 1, get("/trial"))
	time.Sleep(30 * time.Second)

	for _, m := range []*observe.Monitor{one, two} {
		status := m.Status(10)
		total := observe.Counts{}
		for _, s := range status.Series {
			total.Allowed += s.Total.Allowed
			total.Denied += s.Total.Denied
		}
		// One of 8 at a limit of 5 allows 5, the other 3 and 2 more of 5.
		if total.Allowed != 10 || total.Denied != 6 {
			t.Errorf("got %+v of all, want 10 and 6: %+v", total, status.Series)
		}
		if len(status.Processes) != 2 || !status.Processes[0].Self || status.Processes[1].Self {
			t.Fatalf("got %+v, want both", status.Processes)
		}
		if each := status.Processes[0].Total.Denied + status.Processes[1].Total.Denied; each != 6 {
			t.Errorf("the processes have denied %d, want 6", each)
		}
		var seconds int64
		for _, p := range m.History(time.Second) {
			seconds += p.Denied
			if p.Denied < 0 || p.Allowed < 0 {
				t.Errorf("got %+v", p)
			}
		}
		if seconds != 6 {
			t.Errorf("the seconds add up to %d denials, want 6", seconds)
		}
		if top := m.Top("ip", 10); len(top) != 1 || top[0].Denied != 6 {
			t.Errorf("got %+v, want one with 6", top)
		}
	}
	leave()
	time.Sleep(5 * time.Second)
	if s := two.Status(0); len(s.Processes) != 1 || s.Point.Denied != 0 {
		t.Errorf("got %+v, want only this process after the other has left", s)
	}
	if named := shared.named.Load(); named == hashed {
		t.Errorf("the client is named: %v", named)
	}
}

// TestFleetShadow: a report counts what both have judged.
func TestFleetShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, memory := &table{Store: guardtest.Memory(t)}, guardtest.Memory(t)
		one, two := newMonitor(t), newMonitor(t)
		oneGuard := guardtest.New(t, memory, inShadow, policy.GuardConfig{Observer: one})
		twoGuard := guardtest.New(t, memory, inShadow, policy.GuardConfig{Observer: two})
		defer one.Share(shared)()
		defer two.Share(shared)()
		ask(t, oneGuard, 3, get("/trial"))
		ask(t, twoGuard, 4, get("/trial"))
		time.Sleep(20 * time.Second)
		a, b := one.ShadowReports(oneGuard.Set(), 10), two.ShadowReports(twoGuard.Set(), 10)
		if len(a) == 0 || len(b) == 0 || a[0].Processes != 2 {
			t.Fatalf("got %+v and %+v", a, b)
		}
		if a[0].Total != b[0].Total || a[0].Total.Requests != 7 || a[0].Total.Denied == 0 || a[0].Total.Subjects != 1 ||
			!a[0].Total.AtLeast || a[0].Recent.Requests != 7 {
			t.Errorf("got %+v and %+v, want 7 of at least one subject", a[0].Total, b[0].Total)
		}
		if len(a[0].Top) != 1 || a[0].Top[0].Denied != a[0].Total.Denied {
			t.Errorf("got %+v", a[0].Top)
		}
		if last := a[0].Minutes[len(a[0].Minutes)-1]; last.Requests != 7 {
			t.Errorf("got %+v of this minute, want 7", last)
		}
	})
}

// TestProcessSilent: a process that stops without a word is an alert in the others within ten
// seconds, until it reports again or is forgotten; one that has no store raises none.
func TestProcessSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &table{Store: guardtest.Memory(t)}
		hangs := &table{Store: shared.Store}
		one, two := newMonitor(t), newMonitor(t)
		defer one.Share(shared)()
		defer two.Share(hangs)()
		for _, step := range []struct {
			name       string
			sharedAway bool // this process cannot read reports
			hangs      bool // the other one cannot write any
			lasts      time.Duration
			fires      bool
			processes  int // that are known
		}{
			{"both report", false, false, 20 * time.Second, false, 2},
			{"no reports can be read", true, false, time.Minute, false, 2},
			{"they can again", false, false, 20 * time.Second, false, 2},
			{"the other one is silent", false, true, 10 * time.Second, true, 2},
			{"it reports again", false, false, 6 * time.Second, false, 2},
			{"it is forgotten", false, true, 10*time.Minute + 10*time.Second, false, 1},
		} {
			shared.away.Store(step.sharedAway)
			hangs.away.Store(step.hangs)
			time.Sleep(step.lasts)
			status := one.Status(0)
			fires := slices.ContainsFunc(status.Alerts, func(a observe.Alert) bool {
				return a.Name == "ProcessSilent" && a.State == "firing" && strings.Contains(a.Summary, "Silent: ")
			})
			if fires != step.fires || len(status.Processes) != step.processes || fires && !status.Processes[1].Silent {
				t.Errorf("%s: fires %v, want %v, %d processes: %+v", step.name, fires, step.fires, step.processes, status)
			}
		}
		hangs.away.Store(false)
	})
}

// TestFleetSize: a process writes at most 100 bytes a second for each rule, however much it counts.
func TestFleetSize(t *testing.T) {
	testkit.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		const rules, seconds = 3, 20
		shared := &table{Store: guardtest.Memory(t)}
		m, g := watched(t, `
tiers: [{name: anyone, identity: ip, limits: 5/1h, shadow: true}]
policies:
  - {name: all, match: {path: /}, limits: 500/1h}
  - {name: every-request, match: {path: /}, limits: 50000/1d}
`)
		defer m.Share(shared)()
		for range seconds {
			for i := range 400 {
				in := get("/")
				in.Peer = netip.MustParseAddr(fmt.Sprintf("2001:db8:1234:%x::1", 0x1000+i%300))
				ask(t, g, 1, in)
			}
			time.Sleep(time.Second)
		}
		if got := shared.written.Load() / seconds / rules; got > 100 {
			t.Errorf("%d bytes a second for each rule, want at most 100", got)
		}
	})
}
