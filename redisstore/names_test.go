package redisstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// Name keys of tests.
var (
	keyA = bytes.Repeat([]byte("a"), 32)
	keyB = bytes.Repeat([]byte("b"), 32)
	keyC = bytes.Repeat([]byte("c"), 32)
)

func named(current []byte, previous ...[]byte) option {
	return func(c *redisstore.Config) { c.NameKeys = append([][]byte{current}, previous...) }
}

const (
	jane   = "user:jane.doe@example.com"
	phone  = "login:+12061234567"
	apiKey = "sk_live_4242424242"
)

// secrets are what must not be found in Redis: names, and what others could find a name by.
func secrets() []string {
	sum := sha256.Sum256([]byte(apiKey))
	long := keypart.Append(nil, longName, true)
	return []string{"jane", "example.com", "203.0.113.77", "2061234567", "order-jane", hex.EncodeToString(sum[:16]),
		string(long[1:])}
}

var longName = "user:" + strings.Repeat("very-long-jane-", 20)

// history does everything with names that a store can do.
func history(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx := t.Context()
	take := func(r stint.Request) stint.Decision {
		t.Helper()
		return take(t, s, r)
	}
	hourly := []stint.Limit{stint.PerHour(3)}
	sum := sha256.Sum256([]byte(apiKey))
	for _, subject := range []string{jane, "ip:203.0.113.77", "x-api-key:" + hex.EncodeToString(sum[:16]), longName,
		"jane without a kind"} {
		claim := stint.Claim{Subject: subject, Limits: hourly, Cost: 1}
		take(stint.Request{Claims: []stint.Claim{claim}})
		claim.Scope = phone
		once := stint.Request{Claims: []stint.Claim{claim}, ID: "order-jane-7", Bans: &stint.BanPolicy{}}
		d := take(once)
		if again := take(once); !again.Repeat {
			t.Errorf("%s: the id is not known", subject)
		}
		amend(t, s, d.Charge, settle(2))
		strict := &stint.BanPolicy{After: 1, Within: time.Hour, Durations: []time.Duration{time.Hour}}
		for range 3 {
			take(stint.Request{Claims: []stint.Claim{claim}, Bans: strict})
		}
		if d := take(stint.Request{Claims: []stint.Claim{claim}, Bans: strict}); !d.Banned {
			t.Errorf("%s is not banned", subject)
		}
		shown := testkit.Must(s.Inspect(ctx, claim))(t)
		if shown.Ban.Until.IsZero() || shown.Windows[0].Used == 0 {
			t.Errorf("%s: inspected %+v", subject, shown)
		}
		testkit.Must(s.Scopes(ctx, subject))(t)
		claim.Scope = "leased"
		take(driver.WithTerms(stint.Request{Claims: []stint.Claim{claim}}, driver.Terms{Lease: time.Minute}))
		claim.Scope = "waiting"
		take(stint.Request{Claims: []stint.Claim{claim}, Mode: stint.ModeReserve})
		claim.Scope = "held"
		claim.Limits = []stint.Limit{stint.Concurrency(2, time.Hour)}
		held := take(stint.Request{Claims: []stint.Claim{claim}})
		amend(t, s, held.Charge, extend)
		released := take(stint.Request{
			Claims: []stint.Claim{claim, {Subject: subject + "2", Limits: hourly, Cost: 1}}})
		amend(t, s, released.Charge, stint.Amendment{Kind: stint.AmendRelease})
		batch := []*driver.Call{{Request: stint.Request{
			Claims: []stint.Claim{{Subject: subject, Scope: "batch", Limits: hourly, Cost: 1}}, ID: "order-jane-8"}}}
		s.TakeBatch(ctx, batch)
		testkit.Must(batch[0].Decision, batch[0].Err)(t)
		for _, c := range []stint.Command{
			{Kind: stint.CommandGiveBack, Subject: subject, Limits: hourly, Units: 1},
			{Kind: stint.CommandReset, Subject: subject + "3", Limits: hourly},
			{Kind: stint.CommandBan, Subject: subject + "4", For: time.Hour},
			{Kind: stint.CommandUnban, Subject: subject + "5"},
		} {
			command(t, s, c)
		}
	}
	if bans := testkit.Must(s.Bans(ctx, 100))(t); len(bans) != 10 {
		t.Errorf("%d bans, want 10", len(bans))
	}
}

// monitor returns what a server was sent, as MONITOR shows it, until the function is called.
func monitor(t *testing.T, server *redistest.Server) (stop func() string) {
	t.Helper()
	conn := testkit.Opened(net.Dial("tcp", server.Addr()))(t)
	testkit.Must(conn.Write([]byte("MONITOR\r\n")))(t)
	var seen testkit.Buffer
	go func() { _, _ = io.Copy(&seen, conn) }() // until it is closed
	saw := func(text string) func() bool { return func() bool { return strings.Contains(seen.String(), text) } }
	testkit.Eventually(t, "MONITOR", saw("+OK"))
	return func() string {
		server.CLI(t, "ECHO", "that is all")
		testkit.Eventually(t, "the end", saw("that is all"))
		return seen.String()
	}
}

// contents are all keys and values of the servers.
func contents(t *testing.T, c rueidis.Client) string {
	t.Helper()
	var all strings.Builder
	masters(t, c, func(node rueidis.Client) {
		for key := range ttls(t, node) {
			value, err := node.Do(t.Context(), node.B().Dump().Key(key).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				t.Fatal(err)
			}
			all.WriteString(key + " " + value + "\n")
		}
	})
	return all.String()
}

// TestNoNamesInRedis: with a name key there is nothing in Redis by which somebody could be found,
// in no key or value, nor in what is sent there.
func TestNoNamesInRedis(t *testing.T) {
	server := redistest.Start(t, "--rdbcompression", "no") // so that DUMP shows values as they are
	check := func(options ...option) (found []string) {
		t.Helper()
		stop := monitor(t, server)
		history(t, open(t, server.URL(), options...))
		c := client(t, server.URL())
		text := contents(t, c) + stop()
		flush(t, c)
		for _, secret := range secrets() {
			if strings.Contains(text, secret) {
				found = append(found, secret)
			}
		}
		return found
	}
	if found := check(named(keyA)); len(found) > 0 {
		t.Errorf("Redis knows %q", found)
	}
	if found := check(); len(found) != len(secrets()) { // to see that all of them would be found
		t.Errorf("without a key Redis knows %q; want all of %q", found, secrets())
	}
}

// useOne takes a unit and returns how many are used of five.
func useOne(t *testing.T, s *redisstore.Store, subject string) int64 {
	t.Helper()
	d := take(t, s, unit(subject, five...))
	return d.Usages()[0].Used
}

var five = []stint.Limit{stint.PerHour(5)}

// banned are the subjects of the bans in force.
func banned(t *testing.T, s *redisstore.Store) (subjects []string) {
	t.Helper()
	list := testkit.Must(s.Bans(t.Context(), 100))(t)
	for _, b := range list {
		subjects = append(subjects, b.Subject)
	}
	slices.Sort(subjects)
	return subjects
}

// refused opens a store with the wrong name key.
func refused(t *testing.T, url, want string, options ...option) {
	t.Helper()
	s, err := redisstore.OpenNow(t.Context(), configOf(url, options))
	if err == nil {
		s.Close()
		t.Fatalf("opened, want %q", want)
	}
	if !errors.Is(err, redisstore.ErrNameKey) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want ErrNameKey and %q", err, want)
	}
}

// TestNameKeys: processes with the same key share limits, and those with another, or none, are
// refused.
func TestNameKeys(t *testing.T) {
	url := redistest.Start(t).URL()
	first, second := open(t, url, named(keyA)), open(t, url, named(keyA))
	for want := int64(1); want <= 5; want += 2 {
		if got := useOne(t, first, jane); got != want {
			t.Errorf("used %d, want %d", got, want)
		}
		if got := useOne(t, second, jane); got != min(want+1, 5) {
			t.Errorf("used %d, want %d", got, want+1)
		}
	}
	refused(t, url, "and this process has", named(keyB))
	refused(t, url, "and this process has", named(keyB, keyC))
	refused(t, url, "and this process has none")
	_, err := redisstore.OpenNow(t.Context(), redisstore.Config{URL: url, NameKeys: [][]byte{keyA[1:]}})
	if err == nil || !strings.Contains(err.Error(), "want at least 32") {
		t.Errorf("a short key: %v", err)
	}
	// Under another prefix nobody minds.
	open(t, url, prefixed("mine"))
	open(t, url, prefixed("yours"), named(keyB))
	// Those who start together agree.
	var together sync.WaitGroup
	var fails sync.Map
	for range 8 {
		together.Go(func() {
			s, err := redisstore.OpenNow(context.Background(),
				redisstore.Config{URL: url, Prefix: "together", NameKeys: [][]byte{keyA}})
			if err != nil {
				fails.Store(err, true)
				return
			}
			s.Close()
		})
	}
	together.Wait()
	fails.Range(func(err, _ any) bool { t.Error(err); return true })
}

// TestRotation: while processes have both keys, the old one stays in use and nothing is lost. The
// first process with the new key alone begins to use it, and those with both follow.
func TestRotation(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	old := open(t, url, named(keyA))
	useOne(t, old, jane)
	both := open(t, url, named(keyB, keyA))
	if got := useOne(t, both, jane); got != 2 {
		t.Errorf("used %d by both keys, want 2", got)
	}
	if got := useOne(t, old, jane); got != 3 {
		t.Errorf("used %d by the old key, want 3", got)
	}
	open(t, url, named(keyA)).Close() // a process that is started again before it has the new key

	done := open(t, url, named(keyB))
	if got := useOne(t, done, jane); got != 1 {
		t.Errorf("used %d by the new key, want 1: it starts over", got)
	}
	testkit.Eventually(t, "they count together", func() bool {
		shown, err := both.Inspect(t.Context(), stint.Claim{Subject: jane, Limits: five})
		return err == nil && shown.Windows[0].Used == 1
	})
	refused(t, url, "and this process has", named(keyA))
	testkit.Eventually(t, "the old key is refused", func() bool {
		_, err := old.Inspect(t.Context(), stint.Claim{Subject: jane, Limits: five})
		return errors.Is(err, redisstore.ErrNameKey)
	})
}

// TestNamesAreLost: Redis loses its data while processes go on. They put the name key back, or stop
// using Redis if another key was first.
func TestNamesAreLost(t *testing.T) {
	t.Parallel()
	t.Run("put back", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		s := open(t, server.URL(), named(keyA))
		server.CLI(t, "FLUSHALL")
		useOne(t, s, jane)
		testkit.Eventually(t, "the key is back", func() bool { return server.CLI(t, "EXISTS", "stint:names") == "1" })
		if got := useOne(t, open(t, server.URL(), named(keyA)), jane); got != 2 {
			t.Errorf("used %d, want 2", got)
		}
	})
	t.Run("with another key", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		var log testkit.Buffer
		s := open(t, server.URL(), named(keyA), func(c *redisstore.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		server.CLI(t, "FLUSHALL")
		stranger := open(t, server.URL(), named(keyC))
		testkit.Eventually(t, "it is not used", func() bool {
			_, err := s.Take(t.Context(), unit(jane, five...))
			return errors.Is(err, redisstore.ErrNameKey) && errkind.Of(err) == stint.KindOther
		})
		server.CLI(t, "CONFIG", "RESETSTAT")
		claim := unit(jane, five...).Claims[0]
		charge := driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 7, At: 7})
		_, amend := s.Amend(t.Context(), charge, settle(0))
		_, inspect := s.Inspect(t.Context(), claim)
		_, scopes := s.Scopes(t.Context(), jane)
		batch := []*driver.Call{{Request: unit(jane, five...)}}
		s.TakeBatch(t.Context(), batch)
		for op, err := range map[string]error{
			"amend": amend, "inspect": inspect, "scopes": scopes, "batch": batch[0].Err,
			"command": s.Command(t.Context(), stint.Command{Kind: stint.CommandBan, Subject: jane, For: time.Hour}),
		} {
			if !errors.Is(err, redisstore.ErrNameKey) {
				t.Errorf("%s: %v, want ErrNameKey", op, err)
			}
		}
		if stats := server.CLI(t, "INFO", "commandstats"); strings.Contains(stats, "cmdstat_evalsha") ||
			strings.Contains(stats, "cmdstat_scan") {
			t.Errorf("something was sent: %s", stats)
		}
		if got := strings.Count(log.String(), "level=ERROR"); got != 1 ||
			!strings.Contains(log.String(), "and this process has") {
			t.Errorf("logged %s; want one error that says why", log.String())
		}
		stranger.Close()
		server.CLI(t, "DEL", "stint:names")
		testkit.EventuallyNil(t, "it is used again", func() error {
			_, err := s.Take(t.Context(), unit(jane, five...))
			return err
		})
	})
}

// TestRowsOfLists: what lists show can be acted upon, by people. Requests never reach anybody by
// it, nor does anybody who has chosen such a name.
func TestRowsOfLists(t *testing.T) {
	s := open(t, redistest.Start(t).URL(), named(keyA))
	at := func(subject, scope string) stint.Claim {
		return stint.Claim{Subject: subject, Scope: scope, Limits: five, Cost: 1}
	}
	take := func(c stint.Claim) stint.Decision {
		t.Helper()
		return take(t, s, stint.Request{Claims: []stint.Claim{c}, Bans: &stint.BanPolicy{}})
	}
	command := func(kind stint.CommandKind, c stint.Claim) {
		t.Helper()
		of := stint.Command{Kind: kind, Subject: c.Subject}
		switch kind {
		case stint.CommandReset:
			of.Scope, of.Limits = c.Scope, five
		case stint.CommandBan:
			of.For = time.Hour
		}
		command(t, s, of)
	}
	wantUsed := func(what string, c stint.Claim, want int64) {
		t.Helper()
		if shown, err := s.Inspect(t.Context(), c); err != nil || shown.Windows[0].Used != want {
			t.Errorf("%s: %+v used, %v; want %d", what, shown.Windows, err, want)
		}
	}
	her := at(jane, phone)
	take(her)
	take(her)
	command(stint.CommandBan, her)
	list := banned(t, s)
	scopes, err := s.Scopes(t.Context(), list[0])
	if err != nil || len(scopes) != 1 || !strings.HasPrefix(scopes[0], "login#") ||
		!strings.HasPrefix(list[0], "user#") || len(list[0]) != len("user#")+22 {
		t.Fatalf("the lists show %q and %q, %v; want kinds and hashes", list, scopes, err)
	}
	if clear, err := s.Scopes(t.Context(), jane); err != nil || !slices.Equal(clear, scopes) {
		t.Errorf("scopes %q by name, %q by row", clear, scopes)
	}
	row := at(list[0], scopes[0])

	// Somebody is called as the list calls Jane.
	d := take(row)
	if !d.Allowed || d.Usages()[0].Used != 1 {
		t.Errorf("the other has %d used, banned %t; want 1 of their own", d.Usages()[0].Used, d.Banned)
	}
	if d := take(at(jane, scopes[0])); d.Usages()[0].Used == 3 {
		t.Error("a scope as the list has it is that of another")
	}
	amend(t, s, d.Charge, settle(5))
	wantUsed("Jane", her, 2)

	// Somebody else has chosen such a name. They can be acted upon by it, and Jane is not.
	called := at("user:"+strings.TrimPrefix(row.Subject, "user"), "login:"+strings.TrimPrefix(row.Scope, "login"))
	command(stint.CommandUnban, called)
	if d := take(her); !d.Banned {
		t.Error("Jane was unbanned by the name of another")
	}
	take(called)
	wantUsed("a name like a row", called, 1)
	command(stint.CommandReset, called)
	wantUsed("a name like a row, after its reset", called, 0)

	wantUsed("the row", row, 2)
	command(stint.CommandUnban, row)
	if d := take(her); d.Banned || d.Usages()[0].Used != 3 {
		t.Errorf("after the unban by row: banned %t, %d used", d.Banned, d.Usages()[0].Used)
	}
	command(stint.CommandReset, row)
	wantUsed("Jane, after the reset by row", her, 0)
	command(stint.CommandBan, row)
	if d := take(her); !d.Banned {
		t.Error("after the ban by row she is not banned")
	}
}

// TestAnnouncedNames: who was denied here is told by name.
func TestAnnouncedNames(t *testing.T) {
	url := redistest.Start(t).URL()
	here, there := open(t, url, named(keyA)), open(t, url, named(keyA))
	for range 5 {
		useOne(t, here, jane)
	}
	useOne(t, here, jane) // denied
	heard := make(chan string, 100)
	go func() {
		_ = here.Announcements(t.Context(), func(subject string, _ bool) { heard <- subject })
	}()
	for _, test := range []struct{ subject, want string }{{jane, jane}, {"user:stranger", "user#"}} {
		testkit.Eventually(t, "the announcement", func() bool {
			command(t, there, stint.Command{Kind: stint.CommandReset, Subject: test.subject, Limits: five})
			select {
			case got := <-heard:
				return strings.HasPrefix(got, test.want)
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
}
