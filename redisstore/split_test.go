package redisstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// wires are connections that a test disturbs.
type wires struct {
	loseRequests atomic.Bool  // of amendments: the connection breaks instead
	loseReplies  atomic.Bool  // to amendments: it breaks after them
	delay        atomic.Int64 // of all replies
	lost         atomic.Int64
}

func (w *wires) option() option {
	return adjusted(func(co *rueidis.ClientOption) {
		co.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			return &wire{Conn: conn, wires: w}, err
		}
	})
}

type wire struct {
	net.Conn
	wires  *wires
	broken atomic.Bool
}

func (w *wire) Write(b []byte) (int, error) {
	requests, replies := w.wires.loseRequests.Load(), w.wires.loseReplies.Load()
	if !requests && !replies || !bytes.Contains(b, []byte("}:settled")) {
		return w.Conn.Write(b)
	}
	w.wires.lost.Add(1)
	if !requests {
		w.broken.Store(true)
		_, _ = w.Conn.Write(b)
		time.Sleep(50 * time.Millisecond) // no other call is sent meanwhile, and loses its answer
	}
	_ = w.Close()
	return 0, io.ErrClosedPipe
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.broken.Load() {
		return 0, io.EOF
	}
	time.Sleep(time.Duration(w.wires.delay.Load()))
	return n, err
}

// apart returns subjects on different nodes.
func apart(t *testing.T, c *redistest.Cluster, n int) (subjects []string) {
	t.Helper()
	owners := map[*redistest.Server]bool{}
	for i := 0; len(subjects) < n; i++ {
		subject := fmt.Sprint("apart:", i)
		if owner := c.MasterOf(t, "{"+subject+"}"); !owners[owner] {
			owners[owner] = true
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

// Who is denied by its own limits uses nothing up of a ceiling for all.
func aDenialChargesNoCeiling(t *testing.T, cluster *redistest.Cluster) {
	s := open(t, cluster.URL())
	subjects := apart(t, cluster, 2)
	ceiling := unit(subjects[1], stint.PerHour(1_000_000)).Claims[0]
	ceiling.Shared = true
	request := func(user string, limit int64, id string) stint.Request {
		r := unit(user, stint.PerHour(limit))
		r.Claims, r.ID = append(r.Claims, ceiling), id
		return r
	}
	for i := range 3 {
		if d := admit(t, s, request(subjects[0], 10, "")); d.Usages()[1].Used != int64(i+1) {
			t.Fatalf("%+v", d)
		}
	}
	// A ceiling that is the request's own claim is asked last too.
	first := request("nobody", 0, "")
	first.Claims = []stint.Claim{first.Claims[1], first.Claims[0]}
	if d := take(t, s, first); d.Allowed || d.Denier != 2 {
		t.Fatalf("%+v", d)
	}
	var group sync.WaitGroup
	for c := range 500 {
		group.Go(func() {
			for i := range 4 {
				id := ""
				if i%2 == 1 {
					id = fmt.Sprint(c, i)
				}
				r := request(fmt.Sprint("user:", c), 0, id)
				var d stint.Decision
				var err error
				if i < 2 {
					d, err = s.Take(t.Context(), r)
				} else {
					call := driver.Call{Request: r}
					s.TakeBatch(t.Context(), []*driver.Call{&call})
					d, err = call.Decision, call.Err
				}
				if err != nil || d.Allowed || d.Denier != 1 || len(d.Usages()) != 2 {
					t.Errorf("%+v, %v", d, err)
				} else if u := d.Usages()[1]; u.Used != 3 || u.RetryAfter != 0 || u.ResetAfter <= 0 {
					t.Errorf("the ceiling: %+v, want what was last known of it", u)
				}
			}
		})
	}
	group.Wait()
	wantUsed(t, s, subjects[1], ceiling.Limits[0], 3)
	node := cluster.MasterOf(t, "{"+subjects[1]+"}")
	if settled := node.CLI(t, "EXISTS", redisstore.Key(s, subjects[1], "settled")); settled != "0" {
		t.Error("something was given back to the ceiling")
	}
}

// F43: a denial does not wait until its charges are given back. If that call or its answer is lost,
// they are given back later, and once.
func givingBackIsNotWaitedFor(t *testing.T, cluster *redistest.Cluster) {
	var w wires
	s := open(t, cluster.URL(), w.option())
	subjects, many := apart(t, cluster, 2), stint.PerHour(1000)
	r := unit(subjects[0], many)
	r.Claims[0].Cost, r.Claims = 7, append(r.Claims, unit(subjects[1], stint.PerHour(0)).Claims...)
	for _, fault := range []*atomic.Bool{&w.loseRequests, &w.loseReplies} {
		fault.Store(true)
		before := w.lost.Load()
		if d := take(t, s, r); d.Allowed || d.Denier != 2 {
			t.Fatalf("%+v", d)
		}
		if s.GiveBacks() == 0 {
			t.Error("the denial waited until its charge was given back")
		}
		testkit.Eventually(t, "the call is lost", func() bool { return w.lost.Load() > before })
		fault.Store(false)
		testkit.Eventually(t, "the charge is given back", func() bool { return s.GiveBacks() == 0 })
		wantUsed(t, s, subjects[0], many, 0)
	}
	if info, err := s.Info(t.Context()); err != nil || info.NotGivenBack != 0 {
		t.Errorf("%d charges were not given back, %v", info.NotGivenBack, err)
	}
}

// What is charged for a caller that has left is given back.
func lateChargesAreGivenBack(t *testing.T, cluster *redistest.Cluster) {
	var w wires
	s := open(t, cluster.URL(), w.option())
	subjects, limit := apart(t, cluster, 3), stint.PerHour(1000)
	r := unit(subjects[0], limit)
	for _, subject := range subjects[1:] {
		r.Claims = append(r.Claims, stint.Claim{Subject: subject, Limits: []stint.Limit{limit}, Cost: 1, Shared: true})
	}
	admit(t, s, r)
	w.delay.Store(int64(40 * time.Millisecond))
	late := 0
	for _, budget := range []time.Duration{20, 60, 60, 60} { // the first or the second phase comes too late
		ctx, cancel := context.WithTimeout(t.Context(), budget*time.Millisecond)
		d, err := s.Take(ctx, r)
		cancel()
		if err != nil {
			late++
			continue
		}
		amend(t, s, d.Charge, settle(0))
	}
	if late == 0 {
		t.Error("nothing came late")
	}
	w.delay.Store(0)
	testkit.Eventually(t, "all is given back", func() bool { return s.GiveBacks() == 0 })
	for _, subject := range subjects {
		wantUsed(t, s, subject, limit, 1)
	}
}

// Close gives back what is waiting.
func closeGivesBack(t *testing.T, cluster *redistest.Cluster) {
	var w wires
	s, other := open(t, cluster.URL(), w.option()), open(t, cluster.URL())
	subjects, many := apart(t, cluster, 2), stint.PerHour(1000)
	r := unit(subjects[0], many)
	r.Claims = append(r.Claims, unit(subjects[1], stint.PerHour(0)).Claims...)
	w.delay.Store(int64(20 * time.Millisecond))
	for range 20 {
		if d := take(t, s, r); d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, other, subjects[0], many, 0)
}

// A repeat on a Cluster has what all subjects were charged, also in another process and if it is
// forced, and nothing is charged twice.
func repeatsHaveTheCharge(t *testing.T, cluster *redistest.Cluster) {
	subjects := apart(t, cluster, 3)
	stores := []*redisstore.Store{open(t, cluster.URL()), open(t, cluster.URL())}
	for _, mode := range []stint.Mode{stint.ModeTake, driver.ModeForce} {
		request := stint.Request{ID: fmt.Sprint("x", mode), Mode: mode}
		for i, subject := range subjects {
			request.Claims = append(request.Claims, stint.Claim{Subject: fmt.Sprint(subject, mode), Cost: int64(i + 1),
				Limits: []stint.Limit{stint.PerHour(100), stint.PerHour(100).WithName("n")}})
		}
		first := admit(t, stores[0], request)
		if first.Repeat {
			t.Fatalf("%+v", first)
		}
		for _, s := range stores {
			d := admit(t, s, request)
			got, want := d.Charge.Data(), first.Charge.Data()
			if !d.Repeat || got.ID != want.ID || want.ID == 0 {
				t.Fatalf("%+v, want the charge %+v", d, want)
			}
			for i := range 6 {
				if got.AtOf(i/2) != want.AtOf(i/2) || got.GenerationAt(i) != want.GenerationAt(i) ||
					want.GenerationAt(i) == 0 || got.NowOf(i/2) == 0 {
					t.Errorf("state %d: %+v, want %+v", i, got, want)
				}
			}
		}
		again := take(t, stores[1], request)
		if done := amend(t, stores[1], again.Charge, settle(9)); !done.Changed || done.Charged != 9 {
			t.Errorf("settled %+v", done)
		}
		if done := amend(t, stores[0], first.Charge, settle(20)); done.Changed {
			t.Errorf("settled again: %+v", done)
		}
		look := request
		look.Mode, look.ID = stint.ModePeek, ""
		testkit.Eventually(t, "what a forced repeat charged is given back", func() bool {
			d, err := stores[0].Take(t.Context(), look)
			for _, u := range d.Usages() {
				if u.Used != 9 {
					return false
				}
			}
			return err == nil
		})
	}
}
