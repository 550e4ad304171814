package redisstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// What is not ours is not shown, and stays for the next charge to heal.
func TestInspectOfKeysThatAreNotOurs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{stint.PerMinute(10), stint.TokenBucket(5, 1, time.Second), stint.Concurrency(2, time.Minute)}
	what := []string{"ban", "strikes"}
	for i := range limits {
		what = append(what, limits[i].ID())
	}
	for i, plant := range [][]string{{"SET", "", "garbage"}, {"SET", "", "L" + strings.Repeat("x", 60)},
		{"LPUSH", "", "1"}} {
		subject := fmt.Sprint("victim:", i)
		for _, w := range what {
			plant[1] = "stint:{" + subject + "}:" + w
			server.CLI(t, plant...)
		}
		shown := testkit.Must(s.Inspect(t.Context(), stint.Claim{Subject: subject, Limits: limits}))(t)
		for _, w := range shown.Windows {
			if w.Used != 0 || w.RetryAfter != 0 || w.Entries != nil {
				t.Errorf("%v: %+v, want nothing", plant, w)
			}
		}
		if shown.Ban != (driver.BanState{}) {
			t.Errorf("%v: ban %+v, want none", plant, shown.Ban)
		}
		if n := server.CLI(t, "EXISTS", "stint:{"+subject+"}:ban"); strings.TrimSpace(n) != "1" {
			t.Errorf("%v: the key is gone", plant)
		}
	}
	if bans, err := s.Bans(t.Context(), 10); err != nil || len(bans) != 0 {
		t.Errorf("bans %v, %v; want none", bans, err)
	}
}

func TestBansAmongManyKeys(t *testing.T) {
	server := redistest.Start(t)
	plain, star := open(t, server.URL(), prefixed("axb")), open(t, server.URL(), prefixed("a*b"))
	ban := func(s stint.Store, subject string, d time.Duration) {
		command(t, s, stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
	}
	const many = 3000
	for i := range many {
		ban(plain, fmt.Sprint("user:", i), time.Hour+time.Duration(i)*time.Second)
	}
	long := strings.Repeat("x", 1000)
	ban(star, long, time.Hour)

	got, err := plain.Bans(t.Context(), 2)
	if err != nil || len(got) != 2 || got[0].Subject != "user:2999" || got[1].Subject != "user:2998" {
		t.Errorf("got %v, %v; want the two longest", got, err)
	}
	if got, err = plain.Bans(t.Context(), 2*many); err != nil || len(got) != many {
		t.Errorf("%d bans, %v; want %d", len(got), err, many)
	}
	// A hash stands for a subject that is too long, and no other prefix is looked at.
	if got, err = star.Bans(t.Context(), 10); err != nil || len(got) != 1 || got[0].Subject[0] != '~' {
		t.Errorf("got %v, %v; want one hash", got, err)
	}
	if shown, err := star.Inspect(t.Context(), stint.Claim{Subject: long}); err != nil || shown.Ban.Until.IsZero() {
		t.Errorf("the long one's ban is %+v, %v", shown.Ban, err)
	}
}

// takeIn charges a unit in a scope.
func takeIn(t *testing.T, s stint.Store, subject, scope string) {
	t.Helper()
	r := unit(subject, stint.PerHour(10))
	r.Claims[0].Scope = scope
	take(t, s, r)
}

func wantScopes(t *testing.T, s driver.Inspector, subject string, want ...string) {
	t.Helper()
	got, err := s.Scopes(t.Context(), subject)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("scopes of %.40s are %q, %v; want %q", subject, got, err, want)
	}
}

// Neither prefixes nor subjects are patterns, and what else has keys is not listed.
func TestScopesAmongManyKeys(t *testing.T) {
	server := redistest.Start(t)
	plain, star := open(t, server.URL(), prefixed("axb")), open(t, server.URL(), prefixed("a*b"))
	for i := range 3000 {
		takeIn(t, plain, fmt.Sprint("user:", i), "item:1")
	}
	takeIn(t, plain, "user:7", "item:2")
	takeIn(t, plain, "user:*", "item:3")
	takeIn(t, star, "user:7", "item:4")
	server.CLI(t, "SET", "axb:{user:7}:elsewhere:other", "1")
	server.CLI(t, "SET", "axb:{user:7}", "1")
	wantScopes(t, plain, "user:7", "item:1", "item:2")
	wantScopes(t, plain, "user:*", "item:3")
	wantScopes(t, star, "user:7", "item:4")
	wantScopes(t, star, "user:8")
}

// The node of a subject's slot is asked, and no other.
func scopesAreOfOneNode(t *testing.T, cluster *redistest.Cluster) {
	for _, node := range cluster.Nodes {
		node.CLI(t, "CONFIG", "RESETSTAT")
	}
	s := open(t, cluster.URL())
	const subjects = 50
	for i := range subjects {
		takeIn(t, s, fmt.Sprint("user:", i), fmt.Sprint("item:", i))
	}
	for i := range subjects {
		wantScopes(t, s, fmt.Sprint("user:", i), fmt.Sprint("item:", i))
	}
	c, scans := client(t, cluster.URL()), 0
	for _, node := range c.Nodes() {
		stats := testkit.Must(node.Do(t.Context(), node.B().Info().Section("commandstats").Build()).ToString())(t)
		if _, after, ok := strings.Cut(stats, "cmdstat_scan:calls="); ok {
			n := 0
			testkit.Must(fmt.Sscanf(after, "%d,", &n))(t)
			scans += n
		}
	}
	if scans != subjects {
		t.Errorf("%d scans for %d subjects, want one each", scans, subjects)
	}
}

// A hash stands for a scope that is too long; a subject that is too long is asked for by name all
// the same.
func TestScopesThatAreTooLong(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	long := strings.Repeat("x", 1000)
	takeIn(t, s, long, "item:"+long)
	takeIn(t, s, long, "item:1")
	got, err := s.Scopes(t.Context(), long)
	if err != nil || len(got) != 2 || got[0] != "item:1" || got[1][0] != '~' {
		t.Errorf("scopes are %q, %v; want item:1 and a hash", got, err)
	}
}

// Holds are merged in the state, and Inspect does not read their records: it costs the same beside
// thousands of them.
func TestInspectBesideManyHolds(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	now := time.Now()
	s.SetClock(func() time.Time { return now })
	r := unit("a", stint.Per(1_000_000, 48*time.Hour))
	r.Hold = stint.MaxHold
	const holds = 2000
	for range holds {
		now = now.Add(20 * time.Second)
		admit(t, s, r)
	}
	server.CLI(t, "CONFIG", "RESETSTAT")
	shown, err := s.Inspect(t.Context(), r.Claims[0])
	if err != nil || shown.Windows[0].Held != holds {
		t.Errorf("%+v, %v", shown, err)
	}
	stats := server.CLI(t, "INFO", "commandstats")
	for _, command := range []string{"hgetall", "hscan", "hvals", "hlen"} {
		if strings.Contains(stats, "cmdstat_"+command+":") {
			t.Errorf("Inspect calls %s", command)
		}
	}
	const most = 8 << 10 // two logs of 250 entries of up to 14 bytes, and their heads
	if n, err := strconv.Atoi(server.CLI(t, "STRLEN", "stint:{a}:limits")); err != nil || n == 0 || n > most {
		t.Errorf("the state has %d bytes, %v", n, err)
	}
}
