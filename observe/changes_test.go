package observe_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/changes"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// TestChangeThatDenies: what a lowered limit denies is connected to the change, in the status and
// in alerts; what was denied before is not, nor what a raised limit denies.
func TestChangeThatDenies(t *testing.T) {
	testkit.SkipUnderRace(t)
	const wide = `tiers: [{name: all, identity: ip, limits: 100/1m}]`
	const narrow = `tiers: [{name: all, identity: ip, limits: 10/1m}]`
	for _, test := range []struct {
		name, from, to string
		subjects       int
		says           string
	}{
		{"lowered", wide, narrow, 20, "tier all from 100/1m to 10/1m; 20 subjects newly denied (stint.yaml)."},
		{"raised", narrow, wide, 0, ""},
	} {
		testkit.InBubble(t, test.name, func(t *testing.T) {
			m, g := watched(t, test.from)
			minute := func() {
				for second := range 60 {
					for i := range byte(21) {
						in := get("/")
						in.Peer = netip.AddrFrom4([...]byte{192, 0, 2, i})
						n := 1
						if i == 0 { // over any limit, but for a few seconds only
							n = 110 * max(0, 2-second)
						}
						ask(t, g, n, in)
					}
					time.Sleep(time.Second)
				}
			}
			for range 11 {
				minute()
			}
			was, now := g.Set(), guardtest.Parse(t, test.to)
			_ = g.Replace(now)
			m.Reloaded("policies", config.Reload{Changed: true, At: time.Now(), Files: []string{"stint.yaml"},
				InForce: reload.InForce{Changes: changes.Sets(was, now)}})
			minute()
			s := m.Status(0)
			if len(s.Changes) != 1 || s.Changes[0].Subjects != test.subjects ||
				s.Changes[0].Explains != (test.says != "") {
				t.Fatalf("got %+v, want %d subjects", s.Changes, test.subjects)
			}
			i := slices.IndexFunc(s.Alerts, func(a observe.Alert) bool { return a.Name == "DenialJump" })
			if a := s.Alerts[i]; !strings.Contains(a.Summary, test.says) ||
				(a.State == "firing") != (test.says != "") {
				t.Errorf("got %+v", a)
			}
			if test.subjects == 0 {
				return
			}
			time.Sleep(time.Hour)
			if got := m.Status(0).Changes; len(got) != 0 {
				t.Errorf("after an hour: %+v", got)
			}
		})
	}
}
