package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// Cluster is a Redis Cluster of three masters with one replica each.
type Cluster struct {
	// Nodes are the servers: the first three were started as masters, and node i+3 as a replica of
	// node i.
	Nodes []*Server
}

// StartCluster starts a cluster and waits until every node reports it as healthy and every replica
// has caught up. The arguments are additional configuration for all nodes. A master that does not
// answer is replaced only after a minute, unless [Failover] is among the arguments: on a busy
// machine, a master can take a second to answer, and a failover loses writes.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	mayFailOver := slices.Contains(args, Failover[0])
	args = append([]string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		Failover[0], Failover[1], // a short timeout also makes nodes discover each other sooner
		// A replica takes over regardless of how long it was cut off: tests cut it off to make a
		// failover lose writes.
		"--cluster-replica-validity-factor", "0",
		"--repl-ping-replica-period", "1",
	}, args...)
	for range 2 * clusterMasters {
		node := newServer(t, args...)
		node.needsBus = true
		c.Nodes = append(c.Nodes, node)
	}
	if err := c.each((*Server).start); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	c.assignSlots(t)
	c.meet(t)
	c.AwaitOK(t)
	if !mayFailOver {
		for _, node := range c.Nodes {
			node.CLI(t, "CONFIG", "SET", "cluster-node-timeout", "60000")
		}
	}
	return c
}

// Failover contains arguments for [StartCluster] in tests that kill a master. With them, a dead
// master is replaced shortly after a node timeout of one second.
var Failover = []string{"--cluster-node-timeout", "1000"}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// URL returns a URL with the addresses of all nodes.
func (c *Cluster) URL() string {
	return "redis://" + c.Nodes[0].Addr() + "?addr=" + strings.Join(c.Addrs()[1:], "&addr=")
}

// SlotOf returns the key's hash slot.
func (c *Cluster) SlotOf(t testing.TB, key string) int {
	t.Helper()
	err := errors.New("no node is running")
	for _, node := range c.running() {
		var reply string
		if reply, err = node.Do("CLUSTER", "KEYSLOT", key); err == nil {
			var slot int
			if slot, err = strconv.Atoi(reply); err == nil {
				return slot
			}
		}
	}
	t.Fatalf("redistest: slot of %q: %v", key, err)
	return 0
}

func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node *Server) bool { return node.proc == nil })
}

// MasterOf returns the master that owns the key's slot now.
func (c *Cluster) MasterOf(t testing.TB, key string) *Server {
	t.Helper()
	slot := c.SlotOf(t, key)
	var err error
	for _, node := range c.running() {
		var view []peer
		view, err = clusterView(node)
		for _, peer := range view {
			if peer.owns(slot) && !peer.is("fail") {
				return c.at(t, peer.port)
			}
		}
	}
	t.Fatalf("redistest: no node owns the slot of %q: %v", key, err)
	return nil
}

// ReplicaOf returns the replica of a master, as reported by the master.
func (c *Cluster) ReplicaOf(t testing.TB, master *Server) *Server {
	t.Helper()
	view, err := clusterView(master)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	self := ""
	for _, peer := range view {
		if peer.is("myself") {
			self = peer.id
		}
	}
	for _, peer := range view {
		if peer.master == self && !peer.is("fail") {
			return c.at(t, peer.port)
		}
	}
	t.Fatalf("redistest: %s has no replica", master.Addr())
	return nil
}

// AwaitOK waits until all nodes run and agree that the cluster is healthy, and every master has a
// replica that has caught up. Call it again after restarting a node.
func (c *Cluster) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "the cluster is healthy", func() error {
		for _, node := range c.Nodes {
			if err := c.healthy(node); err != nil {
				return fmt.Errorf("%s: %w", node.Addr(), err)
			}
		}
		return nil
	})
}

// MigrateSlot moves a slot and its keys between two masters while clients use them, as redis-cli
// --cluster reshard does, and waits until every running node knows the new owner.
func (c *Cluster) MigrateSlot(t testing.TB, slot int, from, to *Server) {
	t.Helper()
	n := strconv.Itoa(slot)
	fromID, toID := from.CLI(t, "CLUSTER", "MYID"), to.CLI(t, "CLUSTER", "MYID")
	to.CLI(t, "CLUSTER", "SETSLOT", n, "IMPORTING", fromID)
	from.CLI(t, "CLUSTER", "SETSLOT", n, "MIGRATING", toID)
	// From here on, the old owner creates no keys in the slot, so the loop ends.
	migrate := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000"}
	if to.password != "" {
		migrate = append(migrate, "AUTH", to.password)
	}
	migrate = append(migrate, "KEYS")
	for {
		keys := from.list(t, "CLUSTER", "GETKEYSINSLOT", n, "100")
		if len(keys) == 0 {
			break
		}
		from.CLI(t, append(migrate[:len(migrate):len(migrate)], keys...)...)
	}
	// The new owner comes first; otherwise the slot would briefly have no owner.
	informed := []*Server{to, from}
	for _, node := range c.running() {
		if node != to && node != from && isMaster(node) {
			informed = append(informed, node)
		}
	}
	for _, node := range informed {
		node.CLI(t, "CLUSTER", "SETSLOT", n, "NODE", toID)
	}
	await(t, "all nodes know the slot's new owner", func() error { return c.allSeeOwner(slot, to) })
}

// allSeeOwner returns nil if every running node reports a working cluster with srv as the owner of
// the slot.
func (c *Cluster) allSeeOwner(slot int, srv *Server) error {
	for _, node := range c.running() {
		if err := stateOK(node); err != nil {
			return fmt.Errorf("%s: %w", node.Addr(), err)
		}
		view, err := clusterView(node)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(view, func(p peer) bool { return p.owns(slot) && p.port == srv.Port() }) {
			return fmt.Errorf("%s does not report %s as the owner of slot %d", node.Addr(), srv.Addr(), slot)
		}
	}
	return nil
}

func stateOK(node *Server) error {
	info, err := node.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("cluster_state is not ok")
	}
	return nil
}

func (c *Cluster) healthy(node *Server) error {
	if err := stateOK(node); err != nil {
		return err
	}
	view, err := clusterView(node)
	if err != nil {
		return err
	}
	masters, replicas := 0, 0
	for _, peer := range view {
		switch {
		case peer.is("fail"), peer.is("fail?"), peer.is("handshake"), peer.is("noaddr"):
			return fmt.Errorf("sees %s as %s", peer.id, peer.flags)
		case peer.is("master") && len(peer.slots) > 0:
			masters++
		case peer.is("slave"):
			replicas++
		}
	}
	if masters != clusterMasters || replicas != len(c.Nodes)-clusterMasters {
		return fmt.Errorf("sees %d masters and %d replicas", masters, replicas)
	}
	// Clients ask a node for the other nodes. The node omits replicas whose replication offset it
	// does not know yet.
	slots, err := node.Do("CLUSTER", "SLOTS")
	if err != nil {
		return err
	}
	for _, other := range c.Nodes {
		if !slices.Contains(strings.Fields(slots), strconv.Itoa(other.Port())) {
			return fmt.Errorf("does not show %s to clients", other.Addr())
		}
	}
	if isMaster(node) {
		return oneReplicaOnline(node)
	}
	return nil
}

// assignSlots gives each master a third of the slots, and each node its own epoch, so that the
// nodes do not have to resolve epoch conflicts.
func (c *Cluster) assignSlots(t testing.TB) {
	t.Helper()
	for i, node := range c.Nodes {
		node.CLI(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i >= clusterMasters {
			continue
		}
		first, last := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := first; slot <= last; slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		node.CLI(t, args...)
	}
}

// meet introduces the nodes to each other and attaches the replicas.
func (c *Cluster) meet(t testing.TB) {
	t.Helper()
	for _, node := range c.Nodes {
		for _, peer := range c.Nodes {
			if node != peer {
				node.CLI(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(peer.Port()))
			}
		}
	}
	await(t, "the nodes know each other", func() error {
		for _, node := range c.Nodes {
			view, err := clusterView(node)
			if err != nil {
				return err
			}
			if len(view) != len(c.Nodes) {
				return fmt.Errorf("%s knows %d nodes", node.Addr(), len(view))
			}
			for _, peer := range view {
				if peer.is("handshake") {
					return fmt.Errorf("%s is still shaking hands", node.Addr())
				}
			}
		}
		return nil
	})
	for i, replica := range c.Nodes[clusterMasters:] {
		replica.CLI(t, "CLUSTER", "REPLICATE", c.Nodes[i].CLI(t, "CLUSTER", "MYID"))
	}
}

// each calls f for all nodes concurrently and returns the joined errors.
func (c *Cluster) each(f func(*Server) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, node := range c.Nodes {
		wg.Go(func() { errs[i] = f(node) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) at(t testing.TB, port int) *Server {
	t.Helper()
	for _, node := range c.Nodes {
		if node.Port() == port {
			return node
		}
	}
	t.Fatalf("redistest: no node on port %d", port)
	return nil
}

// peer is one line of CLUSTER NODES.
type peer struct {
	id     string
	port   int
	flags  string
	master string // id of its master, or "-"
	slots  []string
}

func (p peer) is(flag string) bool {
	return slices.Contains(strings.Split(p.flags, ","), flag)
}

func (p peer) owns(slot int) bool {
	for _, r := range p.slots {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.Atoi(lo)
		last, err2 := strconv.Atoi(hi)
		if err1 == nil && err2 == nil && first <= slot && slot <= last {
			return true
		}
	}
	return false
}

// clusterView returns the cluster as one node sees it.
func clusterView(node *Server) ([]peer, error) {
	reply, err := node.Do("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var view []peer
	for line := range strings.Lines(reply) {
		// id ip:port@bus[,hostname] flags master ping-sent pong-received epoch link slot ...
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("unreadable line of CLUSTER NODES: %q", line)
		}
		addr, _, _ := strings.Cut(f[1], "@")
		port, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
		if err != nil {
			return nil, fmt.Errorf("unreadable address in CLUSTER NODES: %q", f[1])
		}
		view = append(view, peer{id: f[0], port: port, flags: f[2], master: f[3], slots: f[8:]})
	}
	return view, nil
}
