package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/storebounds"
	"github.com/stint-limiter/stint/redisstore"
)

// moves are slots of subjects that are being moved, and stay so until the test ends.
type moves struct {
	t *testing.T
	s *redisstore.Store
	c *redistest.Cluster
}

func beginMoves(t *testing.T, s *redisstore.Store, c *redistest.Cluster, subjects ...string) moves {
	t.Helper()
	m := moves{t, s, c}
	for _, subject := range subjects {
		from, to := m.nodes(subject)
		slot := strconv.Itoa(c.SlotOf(t, redisstore.Key(s, subject, "")))
		to.CLI(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.CLI(t, "CLUSTER", "MYID"))
		from.CLI(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.CLI(t, "CLUSTER", "MYID"))
		t.Cleanup(func() {
			for _, node := range []*redistest.Server{to, from} {
				node.CLI(t, "FLUSHALL")
				node.CLI(t, "CLUSTER", "SETSLOT", slot, "STABLE")
			}
		})
	}
	return m
}

func (m moves) nodes(subject string) (from, to *redistest.Server) {
	m.t.Helper()
	if from, to = m.c.MasterOf(m.t, redisstore.Key(m.s, subject, "")), m.c.Nodes[0]; from == to {
		to = m.c.Nodes[1]
	}
	return from, to
}

// key moves one key.
func (m moves) key(subject, what string) {
	m.t.Helper()
	from, to := m.nodes(subject)
	from.CLI(m.t, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), redisstore.Key(m.s, subject, what), "0", "5000")
}

// While a slot moves, its subjects are decided as ever, wherever their keys are.
func TestMovingSlot(t *testing.T)   { movingSlot(t) }
func TestMovingHashed(t *testing.T) { movingSlot(t, named(keyA)) }

func movingSlot(t *testing.T, options ...option) {
	cluster := redistest.StartCluster(t)
	s := open(t, clusterURL(cluster), options...)
	limit := []stint.Limit{stint.PerHour(10)}
	count := 0
	subject := func() string { count++; return fmt.Sprint("moving:", count) }
	request := func(subject string) stint.Request {
		return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limit, Cost: 1}}}
	}
	take := func(t *testing.T, r stint.Request) stint.Decision {
		t.Helper()
		d, err := s.Take(t.Context(), r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		return d
	}
	used := func(t *testing.T, subject string) int64 {
		t.Helper()
		r := request(subject)
		r.Mode = stint.ModePeek
		d := take(t, r)
		return d.Usages()[0].Used
	}
	command := func(t *testing.T, kind stint.CommandKind, subject string) {
		t.Helper()
		c := stint.Command{Kind: kind, Subject: subject, Limits: limit}
		if kind == stint.CommandBan {
			c.For = time.Hour
		}
		if err := s.Command(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	none := &stint.BanPolicy{}

	for _, test := range []struct {
		name string
		run  func(t *testing.T, begin func(subjects ...string) moves)
	}{
		{"no second key", func(t *testing.T, begin func(...string) moves) {
			a, b := subject(), subject()
			take(t, request(a))
			m := begin(a, b)
			take(t, request(a))
			m.key(a, "limits")
			take(t, request(a))
			take(t, request(b)) // a new one
			if used(t, a) != 3 || used(t, b) != 1 {
				t.Errorf("%d and %d used, want 3 and 1", used(t, a), used(t, b))
			}
		}},
		{"not banned", func(t *testing.T, begin func(...string) moves) {
			a, b := subject(), subject()
			r := request(a)
			r.Bans = none
			take(t, r)
			m := begin(a, b)
			for range 2 {
				if d := take(t, r); !d.Allowed || d.Charge.Data().ID == 0 {
					t.Errorf("%+v", d)
				}
			}
			m.key(a, "limits")
			take(t, r)
			r.Claims[0].Subject = b
			take(t, r)
			if used(t, a) != 4 || used(t, b) != 1 {
				t.Errorf("%d and %d used, want 4 and 1", used(t, a), used(t, b))
			}
		}},
		{"banned", func(t *testing.T, begin func(...string) moves) {
			a, b, c := subject(), subject(), subject()
			for _, subject := range []string{a, b} {
				take(t, request(subject))
				command(t, stint.CommandBan, subject)
			}
			m := begin(a, b, c)
			m.key(a, "limits")
			m.key(b, "ban")
			command(t, stint.CommandBan, c)
			for _, subject := range []string{a, b, c} {
				r := request(subject)
				r.Bans = none
				d := take(t, r)
				if d.Allowed || !d.Banned || d.RetryAfter <= 59*time.Minute || d.Key() != subject ||
					len(d.Usages()) != 1 {
					t.Errorf("%s is banned, and gets %+v", subject, d)
				}
				command(t, stint.CommandUnban, subject)
				if d := take(t, r); !d.Allowed {
					t.Errorf("%s is not banned any more, and gets %+v", subject, d)
				}
			}
		}},
		{"denials lead to a ban", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.Claims[0].Cost, r.Bans = 10, &stint.BanPolicy{
				After: 3, Within: time.Hour, Durations: []time.Duration{2 * time.Hour, 3 * time.Hour},
				Forgive: time.Hour}
			take(t, r)
			if d := take(t, r); d.Banned {
				t.Fatal("banned at once")
			}
			m := begin(a)
			m.key(a, "strikes")
			if d := take(t, r); d.Allowed || d.Banned {
				t.Errorf("the second denial: %+v", d)
			}
			if d := take(t, r); !d.Banned || d.RetryAfter < 2*time.Hour-time.Minute {
				t.Errorf("the third denial: %+v", d)
			}
			r.Claims[0].Cost = 1
			if d := take(t, r); !d.Banned {
				t.Errorf("banned: %+v", d)
			}
		}},
		{"request ids", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.ID = "before"
			d := take(t, r)
			first := map[string]uint64{"before": d.Charge.Data().ID}
			m := begin(a)
			for i, id := range []string{"before", "during", "during", "after", "before"} {
				if r.ID = id; i == 3 {
					m.key(a, "limits")
				}
				d := take(t, r)
				if want := i == 0 || i == 2 || i == 4; !d.Allowed || d.Repeat != want {
					t.Errorf("%q: %+v", id, d)
				}
				if !d.Repeat {
					first[id] = d.Charge.Data().ID
				}
				if got := d.Charge.Data().ID; got == 0 || got != first[id] {
					t.Errorf("%q: charge %d, want %d", id, got, first[id])
				}
			}
			if used(t, a) != 3 {
				t.Errorf("%d used, want 3", used(t, a))
			}
			r.ID = "after"
			for range storebounds.MaxRepeats {
				take(t, r)
			}
			if d := take(t, r); d.Repeat || used(t, a) != 4 {
				t.Errorf("repeated too often: %+v", d)
			}
		}},
		{"the request id of what was used long ago", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.Mode, r.ID, r.IDLife, r.Terms().Age = driver.ModeForce, "x", time.Minute, 10*time.Minute
			begin(a)
			for i := range 2 {
				if d := take(t, r); !d.Allowed || d.Repeat != (i == 1) {
					t.Errorf("%d: %+v", i, d)
				}
			}
			if used(t, a) != 1 {
				t.Errorf("%d used, want 1", used(t, a))
			}
		}},
		{"refunds", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.ID = "x"
			before := take(t, r)
			m := begin(a)
			r.ID = ""
			during := take(t, r)
			m.key(a, "limits")
			for i, d := range []stint.Decision{before, during} {
				for _, want := range []bool{true, false} {
					if done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{}); done.Changed != want ||
						err != nil {
						t.Errorf("refund %d: %v, %v; want %v", i, done, err, want)
					}
				}
				other := open(t, clusterURL(cluster), options...) // which does not remember it by itself
				if done, err := other.Amend(t.Context(), d.Charge, stint.Amendment{}); done.Changed || err != nil {
					t.Errorf("refund %d by another: %v, %v", i, done, err)
				}
			}
			if r.ID = "x"; used(t, a) != 0 || take(t, r).Repeat {
				t.Errorf("%d used, want none, and the id forgotten", used(t, a))
			}
			r.ID = "y"
			d := take(t, r)
			take(t, r)
			if done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{}); done.Changed || err != nil {
				t.Errorf("the refund of a request that was repeated: %v, %v", done, err)
			}
			if done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 5}); !done.Changed || err != nil ||
				used(t, a) != 6 {
				t.Errorf("settled: %v, %v, %d used; want 6", done, err, used(t, a))
			}
		}},
		{"raises", func(t *testing.T, begin func(...string) moves) {
			a, b := subject(), subject()
			before, reset := take(t, request(a)), take(t, request(b))
			command(t, stint.CommandReset, b)
			take(t, request(b)) // a new state
			state := redisstore.Key(s, a, "limits")
			cluster.MasterOf(t, state).CLI(t, "DEL", state) // it has expired
			m := begin(a, b)
			m.key(b, "limits")
			for _, want := range []bool{true, false} {
				if done, err := s.Amend(t.Context(), before.Charge, stint.Amendment{Cost: 5}); done.Changed != want ||
					err != nil {
					t.Errorf("raised: %+v, %v, want %v", done, err, want)
				}
			}
			if done, err := s.Amend(t.Context(), reset.Charge, stint.Amendment{Cost: 5}); done.Changed || err != nil {
				t.Errorf("raised after a reset: %+v, %v", done, err)
			}
			if used(t, a) != 4 || used(t, b) != 1 {
				t.Errorf("%d and %d used, want 4 and 1", used(t, a), used(t, b))
			}
		}},
		{"places", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.Claims[0].Limits = []stint.Limit{stint.PerHour(10), stint.AtOnce(1, time.Hour)}
			d := take(t, r)
			m := begin(a)
			m.key(a, "limits")
			_, err := s.Take(t.Context(), r)
			if errkind.Of(err) != errkind.Migrating {
				t.Errorf("two keys of limits on two nodes: %v", err)
			}
			for _, kind := range []stint.AmendmentKind{stint.AmendExtend, stint.AmendRelease} {
				if done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: kind}); !done.Changed ||
					err != nil {
					t.Errorf("amendment %d: %v, %v", kind, done, err)
				}
			}
			if used(t, a) != 1 {
				t.Errorf("%d used, want 1", used(t, a))
			}
		}},
		{"reset and give back", func(t *testing.T, begin func(...string) moves) {
			a := subject()
			r := request(a)
			r.ID = "x"
			take(t, r)
			m := begin(a)
			m.key(a, "seen")
			command(t, stint.CommandReset, a)
			if d := take(t, r); d.Repeat || used(t, a) != 1 {
				t.Errorf("after a reset: %+v", d)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, func(subjects ...string) moves { return beginMoves(t, s, cluster, subjects...) })
			for _, node := range cluster.Nodes[:3] { // the masters: as keys that move are not to be asked for
				space := node.CLI(t, "INFO", "keyspace")
				_, space, _ = strings.Cut(space, "keys=")
				var keys, expires int
				forever := 0
				if own, _ := node.Do("EXISTS", "stint:names"); own == "1" { // which is an error on other nodes
					forever = 1
				}
				if _, err := fmt.Sscanf(space, "%d,expires=%d", &keys, &expires); space != "" &&
					(err != nil || keys != expires+forever) {
					t.Errorf("%d keys, of which %d expire: %v", keys, expires, err)
				}
			}
		})
	}
}

// Of a batch, only what cannot be decided while its slot moves fails.
func TestMovingSlotInABatch(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s := open(t, clusterURL(cluster))
	limit, two := []stint.Limit{stint.PerHour(100)}, []stint.Limit{
		stint.PerHour(100), stint.PerDay(1000).WithName("other")}
	call := func(subject, scope string, limits []stint.Limit, bans *stint.BanPolicy) *driver.Call {
		return &driver.Call{Request: stint.Request{
			Claims: []stint.Claim{{Subject: subject, Scope: scope, Limits: limits, Cost: 1}}, Bans: bans}}
	}
	for _, own := range []bool{false, true} {
		shared := fmt.Sprint("shared", own)
		ctx, cancel := t.Context(), func() {}
		if own {
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
		}
		defer cancel()
		if _, err := s.Take(t.Context(), call(shared, "a", limit, nil).Request); err != nil {
			t.Fatal(err)
		}
		beginMoves(t, s, cluster, shared)
		var batch []*driver.Call
		for i := range 100 {
			batch = append(batch, call(shared, fmt.Sprint("new", i%10), limit, nil), call(shared, "a", limit, nil),
				call(shared, "a", limit, &stint.BanPolicy{}), call(fmt.Sprint("u", i), "", two, &stint.BanPolicy{}))
		}
		bad := call(shared, "a", two, nil)
		batch = append(batch, bad)
		s.TakeBatch(ctx, batch)
		allowed := map[string]int{}
		for i, c := range batch {
			if c == bad {
				continue
			}
			if c.Err != nil {
				t.Fatalf("call %d: %v", i, c.Err)
			}
			if c.Decision.Allowed {
				allowed[c.Request.Claims[0].Scope]++
			}
		}
		if errkind.Of(bad.Err) != errkind.Migrating {
			t.Errorf("two keys of limits: %+v, %v", bad.Decision, bad.Err)
		}
		if allowed["a"] != 99 || allowed["new3"] != 10 {
			t.Errorf("allowed %v; want 99 in a, for one was before, and 10 in each of the new ones", allowed)
		}
	}
}
