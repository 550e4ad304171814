package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
)

// What is not ours is not shown, and stays for the next charge to heal.
func TestInspectOfKeysThatAreNotOurs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{stint.PerMinute(10), stint.TokenBucket(5, 1, time.Second), stint.AtOnce(2, time.Minute)}
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
		shown, err := s.Inspect(t.Context(), stint.Claim{Subject: subject, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
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
		t.Helper()
		if err := s.Command(t.Context(), stint.Command{Kind: stint.CommandBan, Subject: subject, For: d}); err != nil {
			t.Fatal(err)
		}
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

func TestBansNeedPermission(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	server.CLI(t, "ACL", "SETUSER", "default", "-scan")
	var failed *stint.StoreError
	if _, err := s.Bans(t.Context(), 1); !errors.As(err, &failed) || failed.Op != "bans" ||
		failed.Kind != stint.KindAuth {
		t.Errorf("error %v, want that of a permission", err)
	}
}

// Holds are merged in the state, and Inspect does not read their records: it costs the same beside
// thousands of them.
func TestInspectBesideManyHolds(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	now := time.Now()
	s.SetClock(func() time.Time { return now })
	claim := stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.Per(1_000_000, 48*time.Hour)}}
	const holds = 2000
	for range holds {
		now = now.Add(20 * time.Second)
		d, err := s.Take(t.Context(), stint.Request{Hold: stint.MaxHold, Claims: []stint.Claim{claim}})
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	server.CLI(t, "CONFIG", "RESETSTAT")
	shown, err := s.Inspect(t.Context(), claim)
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
