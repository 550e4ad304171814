package observe_test

import (
	"context"
	"net/netip"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

const perAddress = `
bans: {after: 0}
tiers: [{name: all, identity: ip, limits: 1000/1m}]
policies: [{name: total, identity: everyone, limits: 1000000000/1h}]
`

// address is the ith of a network.
func address(network byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{network, byte(i >> 16), byte(i >> 8), byte(i)})
}

// spell is traffic: so many requests a second, from so many addresses of a network.
type spell struct {
	minutes   int
	rate      int
	network   byte
	addresses int
}

// send sends requests second by second.
func (s spell) send(t *testing.T, g *policy.Guard) {
	t.Helper()
	n := 0
	for range s.minutes * 60 {
		for range s.rate {
			var v policy.Verdict
			in := policy.Input{Method: "GET", Path: "/", Peer: address(s.network, n%s.addresses)}
			if err := g.Decide(context.Background(), &in, &v); err != nil {
				t.Fatal(err)
			}
			n++
		}
		time.Sleep(time.Second)
	}
}

// Traffic that is many times the usual is reported, with whose it is.
func TestSurge(t *testing.T) {
	tests := map[string]struct {
		spells []spell
		want   string // a regular expression; "" is no surge
	}{
		"a botnet below its limits": {[]spell{{11, 20, 1, 200}, {2, 180, 2, 3000}},
			`^Traffic is 9 times the usual, from 3,000 new addresses, all below their limits\.$`},
		"more addresses than are remembered": {[]spell{{11, 20, 1, 200}, {2, 180, 2, 20_000}},
			`^Traffic is 9 times the usual, from about (1[7-9]|2[0-3]),000 new addresses, all below their limits\.$`},
		"it lasts": {[]spell{{11, 20, 1, 200}, {8, 180, 2, 3000}},
			`^Traffic is 9 times the usual, from 3,000 new addresses, all below their limits\.$`},
		"clients that retry": {[]spell{{11, 20, 1, 200}, {2, 180, 1, 200}},
			`^Traffic is 9 times the usual, most of it from subjects that were here before, all below their limits\.$`},
		"one new client": {[]spell{{11, 2, 1, 200}, {2, 15, 2, 1}},
			`^Traffic is [78] times the usual, from 1 new address, all below their limits\.$`},
		"clients above their limits": {[]spell{{11, 20, 1, 200}, {2, 200, 2, 6}},
			`^Traffic is 10 times the usual, from 6 new addresses, [45][0-9] % of the requests denied\.$`},
		"it is over":                 {[]spell{{11, 20, 1, 200}, {2, 180, 2, 3000}, {2, 20, 1, 200}}, ""},
		"a process that has started": {[]spell{{1, 1, 1, 200}, {5, 180, 2, 3000}}, ""},
		"a small service":            {[]spell{{20, 1, 1, 20}, {1, 9, 2, 100}}, ""},
		"a busy hour":                {[]spell{{20, 50, 1, 200}, {10, 100, 2, 1000}, {10, 200, 3, 3000}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMonitor(t)
				g := newGuard(t, newMemory(t), perAddress, m)
				for _, s := range test.spells {
					s.send(t, g)
				}
				wantSurge(t, m, test.want)
			})
		})
	}
}

func wantSurge(t *testing.T, m *observe.Monitor, want string) {
	t.Helper()
	got := ""
	if s := m.Status(0).Surge; s != nil {
		got = s.Text
	}
	if (want == "") != (got == "") || !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("the surge is %q, want %q", got, want)
	}
}

// A process that takes over the requests of another reports no surge, and neither does one that
// hears of others again after an outage.
func TestNoSurgeOfTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, shared := newMemory(t), newTable(t)
		a, b := newMonitor(t), newMonitor(t)
		defer a.Share(shared)()
		defer b.Share(shared)()
		ga, gb := newGuard(t, store, perAddress, a), newGuard(t, store, perAddress, b)
		spell{1, 1, 1, 20}.send(t, ga)
		spell{20, 50, 1, 200}.send(t, gb)
		spell{2, 50, 1, 200}.send(t, ga)
		wantSurge(t, a, "")

		shared.setAway(true)
		spell{20, 50, 1, 200}.send(t, gb)
		shared.setAway(false)
		time.Sleep(10 * time.Second)
		spell{1, 50, 1, 200}.send(t, ga)
		wantSurge(t, a, "")
	})
}
