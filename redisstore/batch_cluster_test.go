package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// lane returns a context for a batch: with a deadline it has connections of its own, without one it
// shares one.
func lane(t *testing.T, own bool) context.Context {
	t.Helper()
	if !own {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func hourly(subject, id string) *driver.Call {
	return &driver.Call{Request: stint.Request{ID: id,
		Claims: []stint.Claim{{Subject: subject, Limits: []stint.Limit{stint.PerHour(1000)}, Cost: 1}}}}
}

func TestBatchesOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	t.Run("nodes", func(t *testing.T) { nodesOfACluster(t, cluster) })
	t.Run("every call is answered", func(t *testing.T) { everyCallOfABatchIsAnswered(t, cluster) })
	t.Run("a long subject holds up nobody", func(t *testing.T) { aLongSubjectHoldsUpNobody(t, cluster) })
	t.Run("a slot without a node", func(t *testing.T) { aSlotWithoutANode(t, cluster) }) // the last: it stays so
}

// Every call of a batch is answered, once, also if nothing may be sent.
func everyCallOfABatchIsAnswered(t *testing.T, cluster *redistest.Cluster) {
	s := openAt(t, cluster.URL())
	for _, refused := range []error{nil, errors.New("names may not be written")} {
		if refused != nil {
			s.refused.Store(&refused)
		}
		for _, own := range []bool{false, true} {
			var batch []*driver.Call
			done := make([]int, 300)
			for i := range done { // more than go into one script call
				c := hourly("a", fmt.Sprint(refused, own, i))
				c.Done = func() { done[i]++ }
				batch = append(batch, c)
			}
			s.TakeBatch(lane(t, own), batch)
			for i, c := range batch {
				if done[i] != 1 || (c.Err != nil) != (refused != nil) || c.Decision.Allowed != (refused == nil) {
					t.Fatalf("refused %v, own %v, call %d: answered %d times, allowed %v, %v",
						refused, own, i, done[i], c.Decision.Allowed, c.Err)
				}
			}
		}
	}
}

// A subject that takes several script calls does not hold up others on its node, whose answers came
// with its first.
func aLongSubjectHoldsUpNobody(t *testing.T, cluster *redistest.Cluster) {
	s := openAt(t, cluster.URL())
	var batch []*driver.Call
	for i := range 2000 {
		batch = append(batch, hourly("long", fmt.Sprint(i)))
	}
	node := cluster.MasterOf(t, "stint:{long}:")
	for i := 0; len(batch) < 2005; i++ {
		if subject := fmt.Sprint("u", i); cluster.MasterOf(t, "stint:{"+subject+"}:") == node {
			batch = append(batch, hourly(subject, ""))
		}
	}
	var turn atomic.Int64
	turns := make([]int64, len(batch))
	for i, c := range batch {
		c.Done = func() { turns[i] = turn.Add(1) }
	}
	s.TakeBatch(lane(t, true), batch)
	for i, c := range batch {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if i >= 2000 && turns[i] > turns[1999] {
			t.Errorf("%s was answered as number %d, after the last of the long one", c.Request.Claims[0].Subject, turns[i])
		}
	}
}

// Only calls for a slot that no node serves fail.
func aSlotWithoutANode(t *testing.T, cluster *redistest.Cluster) {
	s := openAt(t, cluster.URL())
	slot := fmt.Sprint(cluster.SlotOf(t, "stint:{gap}:"))
	for _, node := range cluster.Nodes {
		node.CLI(t, "CLUSTER", "DELSLOTS", slot)
	}
	testkit.Eventually(t, "a client that knows of no owner", func() bool {
		_, err := s.Take(t.Context(), hourly("gap", "").Request)
		return errors.Is(err, rueidis.ErrNoSlot)
	})
	batch := []*driver.Call{hourly("gap", "")}
	for i := range 30 {
		batch = append(batch, hourly(fmt.Sprint("u", i), ""))
	}
	s.TakeBatch(lane(t, true), batch)
	for i, c := range batch {
		if (c.Err != nil) != (i == 0) {
			t.Errorf("%s: %v", c.Request.Claims[0].Subject, c.Err)
		}
	}
}

// Who listens to a silent server leaves when its context ends, whatever the client waits for.
func TestListeningEndsWithItsContext(t *testing.T) {
	server := redistest.Start(t)
	s := testkit.Must(Open(t.Context(), Config{URL: server.URL(), AdjustClient: func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.Dialer.Timeout, o.Dialer.KeepAlive = time.Minute, time.Minute, time.Minute
	}}))(t)
	defer s.Close()
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Announcements(ctx, func(string, bool) {}) }()
	time.Sleep(20 * time.Millisecond) // it connects
	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("still listening")
	}
}
