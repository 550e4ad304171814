package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestMigrateSlot(t *testing.T) {
	c := StartCluster(t)
	const tag = "{moved}"
	slot := c.SlotOf(t, tag)
	from := c.MasterOf(t, tag)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	keys := []string{tag, tag + "\r\n\x00", tag + "expired"}
	from.CLI(t, "SET", keys[0], "a")
	from.CLI(t, "SET", keys[1], "b", "EX", "1000")
	from.CLI(t, "SET", keys[2], "c", "PX", "1")
	for i := range 250 {
		from.CLI(t, "SET", tag+strconv.Itoa(i), "x")
	}

	// One who asks either node all the while, as a client does that follows ASK and MOVED, always
	// finds the key.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			got, err := from.Do("GET", keys[0])
			if err != nil && (strings.HasPrefix(err.Error(), "ASK") || strings.HasPrefix(err.Error(), "MOVED")) {
				replies, failed := to.pipeline([]string{"ASKING"}, []string{"GET", keys[0]})
				if failed != nil {
					t.Error(failed)
					return
				}
				got, err = text(replies[1]), nil
			}
			if err != nil || got != "a" {
				t.Errorf("question %d: got %q, %v", n, got, err)
				return
			}
		}
	})
	c.MigrateSlot(t, slot, from, to)
	close(stop)
	wg.Wait()

	if got := c.MasterOf(t, tag); got != to {
		t.Errorf("master: got %s, want %s", got.Addr(), to.Addr())
	}
	if got, want := to.CLI(t, "GET", keys[1]), "b"; got != want {
		t.Errorf("GET on the new owner: got %q, want %q", got, want)
	}
	if got := to.CLI(t, "TTL", keys[1]); got == "-1" {
		t.Error("the TTL was lost")
	}
	if got, want := to.CLI(t, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)), "252"; got != want {
		t.Errorf("keys on the new owner: got %s, want %s", got, want)
	}
	if _, err := from.Do("GET", tag); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("GET on the old owner: got %v, want MOVED", err)
	}
	c.AwaitOK(t)
	c.MigrateSlot(t, slot, to, from) // and back
	if got, want := from.CLI(t, "GET", keys[1]), "b"; got != want {
		t.Errorf("GET after the way back: got %q, want %q", got, want)
	}
}

func TestClusterLossyFailover(t *testing.T) {
	c := StartCluster(t, Failover...)
	const key = "a"
	for round := range 2 { // the second back to the first master
		master := c.MasterOf(t, key)
		replica := c.ReplicaOf(t, master)
		master.CLI(t, "SET", key, fmt.Sprint("kept ", round))
		took := c.LossyFailover(t, key, func() { master.CLI(t, "SET", key, "lost") })
		t.Logf("took %v", took)
		if got := c.MasterOf(t, key); got != replica {
			t.Fatalf("master: got %s, want %s", got.Addr(), replica.Addr())
		}
		if got, want := replica.CLI(t, "GET", key), fmt.Sprint("kept ", round); got != want {
			t.Errorf("after the failover: got %q, want %q", got, want)
		}
		if got, want := replica.CLI(t, "CONFIG", "GET", "masterauth"), "masterauth\n"; got != want {
			t.Errorf("what cut it off is still there: %q", got)
		}
		master.Restart(t)
		c.AwaitOK(t)
	}
}

func TestSentinelLossyFailover(t *testing.T) {
	s := StartSentinel(t)
	s.Master.CLI(t, "SET", "a", "kept")
	took := s.LossyFailover(t, func() { s.Master.CLI(t, "SET", "a", "lost") })
	t.Logf("took %v", took)
	if got, want := s.Replica.CLI(t, "GET", "a"), "kept"; got != want {
		t.Errorf("after the failover: got %q, want %q", got, want)
	}
}
