package redistest

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestRestartKeepsThePortAndForgetsTheData(t *testing.T) {
	s := Start(t)
	addr := s.Addr()
	for _, end := range []func(){s.Kill, s.Stop} {
		s.CLI(t, "SET", "a", "1")
		end()
		if _, err := s.Do("PING"); err == nil {
			t.Fatal("a dead server answers")
		}
		s.Restart(t)
		if got := s.Addr(); got != addr {
			t.Errorf("address after restart: got %s, want %s", got, addr)
		}
		if got, want := s.CLI(t, "EXISTS", "a"), "0"; got != want {
			t.Errorf("EXISTS after restart: got %s, want %s", got, want)
		}
	}
}

func TestPause(t *testing.T) {
	s := Start(t)
	s.Pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := s.Do("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered, error %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.Resume(t)
	if err := <-answered; err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestCluster(t *testing.T) {
	c := StartCluster(t, Failover...)
	if got, want := len(c.Addrs()), 6; got != want {
		t.Fatalf("nodes: got %d, want %d", got, want)
	}
	owners := map[*Server]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		master := c.MasterOf(t, key)
		owners[master] = true
		if got, want := master.CLI(t, "SET", key, "1"), "OK"; got != want {
			t.Errorf("SET %s: got %q, want %q", key, got, want)
		}
	}
	if len(owners) < 2 {
		t.Errorf("six keys live on %d master", len(owners))
	}
	c.Flush(t)
	for _, node := range c.Nodes[:3] {
		if got, want := node.CLI(t, "DBSIZE"), "0"; got != want {
			t.Errorf("DBSIZE of %s after Flush: got %s, want %s", node.Addr(), got, want)
		}
	}

	master := c.MasterOf(t, "a")
	replica := c.ReplicaOf(t, master)
	master.Kill()
	await(t, "the replica has taken over", func() error {
		_, err := replica.Do("SET", "a", "1")
		return err
	})
	if got := c.MasterOf(t, "a"); got != replica {
		t.Errorf("master after failover: got %s, want %s", got.Addr(), replica.Addr())
	}
	master.Restart(t)
	c.AwaitOK(t)
	if got := c.ReplicaOf(t, replica); got != master {
		t.Errorf("replica after the old master's return: got %s, want %s", got.Addr(), master.Addr())
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	var pids []int
	t.Run("servers", func(t *testing.T) {
		running, paused, killed := Start(t), Start(t), Start(t)
		pids = append(pids, running.PID(), paused.PID(), killed.PID())
		paused.Pause(t)
		killed.Kill()
		if got := killed.PID(); got != 0 {
			t.Errorf("PID of a dead server: got %d, want 0", got)
		}
	})
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			t.Errorf("process %d is still there", pid)
		}
	}
}
