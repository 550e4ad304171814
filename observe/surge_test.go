package observe_test

import (
	"context"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

const perAddress = `
bans: {after: 0}
tiers: [{name: all, identity: ip, limits: 1000/1m}]
policies: [{name: total, identity: everyone, limits: 1000000000/1h}]
`

// spell is traffic: so many requests a second, from so many addresses of a network.
type spell struct {
	minutes   int
	rate      int
	network   byte
	addresses int
	want      string // the surge at its end, a regular expression; "" is none
}

// send sends requests second by second.
func (s spell) send(t *testing.T, g *policy.Guard, m *observe.Monitor) {
	t.Helper()
	n := 0
	for range s.minutes * 60 {
		for range s.rate {
			var v policy.Verdict
			i := n % s.addresses // of the network
			in := get("/")
			in.Peer = netip.AddrFrom4([4]byte{s.network, byte(i >> 16), byte(i >> 8), byte(i)})
			if err := g.Decide(context.Background(), &in, &v); err != nil {
				t.Fatal(err)
			}
			n++
		}
		time.Sleep(time.Second)
	}
	got := ""
	if surge := m.Status(0).Surge; surge != nil {
		got = surge.Text
	}
	if (s.want == "") != (got == "") || !regexp.MustCompile(s.want).MatchString(got) {
		t.Errorf("the surge is %q, want %q", got, s.want)
	}
}

// Traffic that is many times the usual is reported, with whose it is, for as long as it lasts.
func TestSurge(t *testing.T) {
	testkit.SkipUnderRace(t)
	const botnet = `^Traffic is 9 times the usual, from (3,000|about (2,[7-9]|3,[0-3])00) new addresses, all below their limits\.$`
	usual := spell{11, 4, 1, 200, ""}
	for name, spells := range map[string][]spell{
		"a botnet below its limits": {usual, {2, 36, 2, 3000, botnet}, {4, 36, 2, 3000, botnet}, {2, 4, 1, 200, ""}},
		"more addresses than are remembered": {{11, 20, 1, 200, ""}, {2, 180, 2, 20_000,
			`^Traffic is 9 times the usual, from about (1[7-9]|2[0-3]),000 new addresses, all below their limits\.$`}},
		"clients that retry": {usual, {2, 36, 1, 200,
			`^Traffic is 9 times the usual, most of it from known subjects, all below their limits\.$`}},
		"one new client": {{11, 2, 1, 200, ""}, {2, 15, 2, 1,
			`^Traffic is [78] times the usual, from 1 new address, all below their limits\.$`}},
		"a client above its limit": {usual, {2, 40, 2, 1,
			`^Traffic is 10 times the usual, from 1 new address, 5[0-9]% of the requests denied\.$`}},
		"a process that has started": {{1, 1, 1, 200, ""}, {5, 36, 2, 3000, ""}},
		"a small service":            {{11, 1, 1, 20, ""}, {1, 9, 2, 100, ""}},
		"a busy hour":                {{11, 10, 1, 200, ""}, {5, 20, 2, 1000, ""}, {5, 40, 3, 3000, ""}},
	} {
		testkit.InBubble(t, name, func(t *testing.T) {
			m, g := watched(t, perAddress)
			for _, s := range spells {
				s.send(t, g, m)
			}
		})
	}
}
