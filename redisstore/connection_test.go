package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// clustered is a client that says it is one to a Cluster.
type clustered struct{ rueidis.Client }

func (clustered) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func TestReplace(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL())
	dial, first := s.conn.dial, s.conn.get()

	s.conn.dial = func(context.Context, ...string) (rueidis.Client, error) {
		c, err := dial(t.Context())
		return clustered{c}, err
	}
	if err := s.conn.replace(); err == nil || s.conn.get() != first {
		t.Errorf("replaced by a client of another kind: %v", err)
	}

	begun, goOn, ended := make(chan bool), make(chan bool), make(chan error)
	s.conn.dial = func(context.Context, ...string) (rueidis.Client, error) {
		begun <- true
		<-goOn
		return dial(t.Context())
	}
	go func() { ended <- s.conn.replace() }()
	<-begun
	if err := s.conn.replace(); err != errRenewing {
		t.Errorf("a second replacement beside the first: %v", err)
	}
	goOn <- true
	if err := <-ended; err != nil || s.conn.get() == first {
		t.Errorf("not replaced: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A part of a reply that cannot be read makes all of it worthless.
func TestASpoiltReply(t *testing.T) {
	s := &Store{clock: newServerClock()}
	var runs []run
	for _, subject := range []string{"a", "b"} {
		runs = append(runs, run{deadline: time.Now().Add(time.Hour), calls: []*driver.Call{hourly(subject, "")}})
	}
	c, _ := s.encodeTake(runs, 7)
	reply := string(appendInt(le.AppendUint64(nil, 7), 1e15)) + string([]byte{markLate})
	for what, rest := range map[string]string{
		"short": "", "odd": strings.Repeat("\x07", 50), "long": string([]byte{markLate, markLate}),
	} {
		late := c.answer(reply+rest, nil)
		for _, q := range runs {
			if err := q.calls[0].Err; !errors.Is(err, errReply) {
				t.Errorf("%s: %s got %v", what, q.calls[0].Request.Claims[0].Subject, err)
			}
		}
		if len(late) > 0 || s.clock.ahead.Load() != 0 {
			t.Errorf("%s: something was believed", what)
		}
	}
	if late := c.answer(reply+string([]byte{markLate}), nil); len(late) != 2 || s.clock.ahead.Load() == 0 {
		t.Errorf("a good reply: late %v", late)
	}
}

func nodesOfACluster(t *testing.T, cluster *redistest.Cluster) {
	s := testkit.Must(Open(t.Context(), Config{URL: cluster.URL()}))(t)
	defer s.Close()
	if s.conn.masters == nil {
		t.Error("the masters are not known from the beginning")
	}
	for _, node := range cluster.Nodes {
		known := node.CLI(t, "SCRIPT", "EXISTS", takeScript.sha)
		if strings.Contains(known, "0") {
			t.Errorf("%s does not know the scripts: %q", node.Addr(), known)
		}
	}

	// A user who may not ask who the others are.
	for _, info := range []string{"+info", "-info"} {
		cluster.Nodes[0].CLI(t, "ACL", "SETUSER", "blind", "on", ">x", "~*", "&*", "+@all", "-cluster", info)
		if s, err := OpenNow(t.Context(), Config{URL: "redis://blind:x@" + cluster.Nodes[0].Addr()}); err == nil {
			s.Close()
			t.Errorf("%s: a Cluster was opened as a single server", info)
		} else if !strings.Contains(err.Error(), "cluster|slots") {
			t.Error(err)
		}
	}

	// One silent master.
	silent := cluster.MasterOf(t, "stint:{a}:")
	var there string
	for i := 0; there == ""; i++ {
		if subject := fmt.Sprint("b", i); cluster.MasterOf(t, "stint:{"+subject+"}:") != silent {
			there = subject
		}
	}
	silent.Pause(t)
	defer silent.Resume(t)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := s.Ping(ctx); err != nil {
			t.Errorf("the others were not asked: %v", err)
		}
		cancel()
	}
	oneIsSilent(t, s, "a", there)
	silent.Resume(t)
	cluster.AwaitOK(t)
	testkit.EventuallyNil(t, "a decision of the node", func() error {
		_, err := s.Take(t.Context(), hourly("a", "").Request)
		return err
	})
	silent.Pause(t)
	oneIsSilent(t, s, "a", there)
}

// oneIsSilent asks for two subjects in one batch, of which one is on a silent node. Nobody waits
// for that node but the first call, until it is given up when the others have been answered.
func oneIsSilent(t *testing.T, s *Store, silent, there string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var done [3]atomic.Bool
	both := hourly(there, "")
	both.Request.Claims = append(both.Request.Claims, hourly(silent, "").Request.Claims...)
	both.Deadline = time.Now().Add(200 * time.Millisecond)
	batch := []*driver.Call{hourly(silent, ""), hourly(there, ""), both}
	for i, c := range batch {
		c.Done = func() {
			done[i].Store(true)
			if i == 0 && ctx.Err() == nil {
				t.Error("the silent node has answered")
			}
			if done[1].Load() && done[2].Load() {
				cancel()
			}
		}
	}
	s.TakeBatch(ctx, batch)
	for i, c := range batch {
		if fails := i != 1; (c.Err != nil) != fails || !done[i].Load() {
			t.Errorf("call %d was answered %v: %v", i, done[i].Load(), c.Err)
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error("calls waited for a node that others need")
	}
}

// What waits to be given back is bounded; what is more is counted, and said once in a while.
func TestGiveBacksAreBounded(t *testing.T) {
	var log strings.Builder
	s := newStore(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	s.conn.usable.Store(true)
	s.backs.waiting.Store(maxGiveBacks)
	for range 5 {
		s.giveBack(driver.NewCharge(nil, driver.ChargeData{ID: 1}))
	}
	s.giveBack(driver.NewCharge(nil, driver.ChargeData{})) // nothing
	s.backs.waiting.Store(0)
	s.conn.stop()
	s.giveBack(driver.NewCharge(nil, driver.ChargeData{ID: 1}))
	if n := s.backs.dropped.Load(); n != 6 || s.backs.waiting.Load() != 0 {
		t.Errorf("%d were dropped, want 6", n)
	}
	if n := strings.Count(log.String(), "cannot be given back"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, log.String())
	}
}
