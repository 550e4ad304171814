package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

// LossyFailover makes the cluster fail over and lose everything that is written to the key's master
// during a call to the given function, but nothing that was written before. It cuts off the
// replica, calls the function and kills the master. The replica then takes over. LossyFailover
// returns the time from the kill until every running node knows the new master. The old master
// stays dead; to fail over again, restart it and call [Cluster.AwaitOK].
//
// Just killing the master would lose almost nothing: on one host, writes that a master has
// acknowledged have usually reached its replica.
func (c *Cluster) LossyFailover(t testing.TB, key string, write func()) time.Duration {
	t.Helper()
	slot := c.SlotOf(t, key)
	master := c.MasterOf(t, key)
	replica := c.ReplicaOf(t, master)
	await(t, "the replica is in sync", func() error { return inStep(master, replica) })
	masterauth := replica.list(t, "CONFIG", "GET", "masterauth")[1]
	replica.CLI(t, "CONFIG", "SET", "masterauth", "bad")
	master.CLI(t, "CLIENT", "KILL", "TYPE", "replica")
	await(t, "the replica is cut off", func() error { return isCutOff(master, replica) })
	write()
	if err := isCutOff(master, replica); err != nil {
		t.Fatalf("redistest: the replica did not stay cut off: %v", err)
	}
	master.Kill()
	took := testkit.EventuallyNil(t, "the failover", func() error {
		if !isMaster(replica) {
			return fmt.Errorf("%s has not taken over", replica.Addr())
		}
		return c.allSeeOwner(slot, replica)
	})
	// The promoted replica needs the password when it becomes a replica again.
	replica.CLI(t, "CONFIG", "SET", "masterauth", masterauth)
	return took
}

// inStep returns nil if the replica has everything that the master had at the time of the call.
func inStep(master, replica *Server) error {
	want, err := replicationInfo(master, "master_repl_offset")
	if err != nil {
		return err
	}
	got, err := replicationInfo(replica, "slave_repl_offset")
	if err != nil {
		return err
	}
	wanted, err1 := strconv.Atoi(want)
	reached, err2 := strconv.Atoi(got)
	if err1 != nil || err2 != nil || reached < wanted {
		return fmt.Errorf("%s is at %q, its master at %q", replica.Addr(), got, want)
	}
	return nil
}

// isCutOff returns nil if both ends know that they are disconnected.
func isCutOff(master, replica *Server) error {
	if n, err := replicationInfo(master, "connected_slaves"); err != nil || n != "0" {
		return fmt.Errorf("%s has %q replicas, error %v", master.Addr(), n, err)
	}
	if link, err := replicationInfo(replica, "master_link_status"); err != nil || link != "down" {
		return fmt.Errorf("%s has a link to its master that is %q, error %v", replica.Addr(), link, err)
	}
	return nil
}

// replicationInfo returns a field of INFO replication, or "" if there is no such field.
func replicationInfo(srv *Server, name string) (string, error) {
	info, err := srv.Do("INFO", "replication")
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return value, nil
		}
	}
	return "", err
}
