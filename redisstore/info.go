package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Info holds what the servers report about themselves, summed over the masters of a Cluster. If a
// server does not report a value, the value is zero, or does not include that server. Warnings
// mentions the commands that are not permitted.
type Info struct {
	// Mode is "standalone", "sentinel" or "cluster". Masters is the number of servers that
	// answered.
	Mode    string
	Masters int
	// Server is "Redis" or "Valkey". Version is its version, the lowest if servers differ, or "" if
	// it is not known.
	Server, Version string
	// Role is "master", or "replica" if one of the servers is a replica.
	Role string

	OpsPerSecond int64
	// UsedMemory and MaxMemory are in bytes. MaxMemory is 0 if the memory of any server is
	// unbounded.
	UsedMemory, MaxMemory int64
	// MemoryShare is the share of maxmemory that is in use on the fullest server: 0.9 means 90%. It
	// is 0 if no server has a maxmemory.
	MemoryShare float64
	// CPUTime has, by address, the CPU time that each server's main thread has used since the
	// server's start. That thread executes all commands.
	CPUTime map[string]time.Duration
	// MaxMemoryPolicy is the eviction policy of the servers: "noeviction", or the policy of a
	// server that evicts keys when it is full.
	MaxMemoryPolicy string
	// Evicted is the number of keys that the servers have evicted since their start.
	Evicted int64
	// Clients is the number of connected clients, including those of other programs.
	Clients int64
	// Keys is the number of keys in the selected database.
	Keys int64

	// Lost lists the addresses of masters of a Cluster that do not answer. Masters does not count
	// them.
	Lost []string

	// ClockAhead has the time by which each server's clock is ahead of the wall clock of this
	// process, by address. It omits servers for which the difference is not known to within half a
	// second.
	ClockAhead map[string]time.Duration

	// NotGivenBack is the number of charges that this process could not give back after a request
	// on several subjects of a Cluster failed or was denied. They count until they leave their
	// windows.
	NotGivenBack int64

	// Warnings are sentences that describe problems and their fixes.
	Warnings []string
}

// Info asks the servers for their state. It omits whatever the Redis user is not permitted to read,
// and adds a warning. An error means that no server answered.
func (s *Store) Info(ctx context.Context) (Info, error) {
	if err := s.await(ctx, "info"); err != nil {
		return Info{}, err
	}
	i := Info{Mode: string(s.conn.get().Mode()), NotGivenBack: s.backs.dropped.Load()}
	nodes, lost, err := s.servers(ctx, "")
	if err != nil {
		return i, s.wrap("info", err)
	}
	// Ask all servers at once, so that a silent server does not use up the time of the others.
	ctx, cancel := context.WithTimeout(ctx, infoTime)
	defer cancel()
	addrs := slices.Sorted(maps.Keys(nodes))
	servers, failures := make([]serverInfo, len(addrs)), make([]error, len(addrs))
	var asking sync.WaitGroup
	for n, addr := range addrs {
		asking.Go(func() { servers[n], failures[n] = ask(ctx, addr, nodes[addr]) })
	}
	asking.Wait()
	for n, addr := range addrs {
		if failures[n] != nil {
			lost = append(lost, addr)
			continue
		}
		i.add(servers[n])
	}
	if i.Masters == 0 {
		return i, s.wrap("info", errors.Join(failures...))
	}
	i.Lost = lost
	return i, nil
}

// infoTime is the maximum time that a server gets for its report.
const infoTime = time.Second

type serverInfo struct {
	report
	keys    int64
	ahead   *time.Duration // how far its clock is ahead of ours; nil if not known
	refused []string       // commands that are unknown or not permitted
}

func ask(ctx context.Context, addr string, node rueidis.Client) (serverInfo, error) {
	t := serverInfo{report: report{addr: addr}}
	// The function unless records a command that is unknown or not permitted, and then returns nil.
	// Otherwise it returns err.
	unless := func(command string, err error) error {
		if unknownOrRefused(err) {
			t.refused = append(t.refused, command)
			return nil
		}
		return err
	}

	sent := time.Now()
	clock, err := node.Do(ctx, node.B().Time().Build().ToPipe()).AsIntSlice()
	if took := time.Since(sent); err == nil && len(clock) == 2 && took <= infoTime {
		ahead := time.Unix(clock[0], clock[1]*1000).Sub(sent.Add(took / 2))
		t.ahead = &ahead
	}
	if err := unless("time", err); err != nil {
		return t, err
	}

	answers := node.DoMulti(ctx, node.B().Arbitrary("INFO").Build().ToPipe(), node.B().Dbsize().Build())
	t.text, err = answers[0].ToString()
	if err := unless("info", err); err != nil {
		return t, err
	}
	t.keys, err = answers[1].AsInt64()
	return t, unless("dbsize", err)
}

func (i *Info) add(t serverInfo) {
	first := i.Masters == 0
	i.Masters++
	server, version := "Redis", t.field("redis_version")
	if v := t.field("valkey_version"); v != "" {
		server, version = "Valkey", v
	}
	if version != "" && (i.Version == "" || older(version, i.Version)) {
		i.Server, i.Version = server, version
	}
	switch t.field("role") {
	case "master":
		i.Role = cmp.Or(i.Role, "master")
	case "slave":
		i.Role = "replica"
	}
	i.OpsPerSecond += t.number("instantaneous_ops_per_sec")
	i.UsedMemory += t.number("used_memory")
	if most := t.number("maxmemory"); first || most > 0 && i.MaxMemory > 0 {
		i.MaxMemory += most
	} else {
		i.MaxMemory = 0
	}
	if most := t.number("maxmemory"); most > 0 {
		i.MemoryShare = max(i.MemoryShare, float64(t.number("used_memory"))/float64(most))
	}
	if first {
		i.CPUTime, i.ClockAhead = map[string]time.Duration{}, map[string]time.Duration{}
	}
	i.CPUTime[t.addr] = t.seconds("used_cpu_user_main_thread") + t.seconds("used_cpu_sys_main_thread")
	if policy, evicts := t.evicts(); first || evicts {
		i.MaxMemoryPolicy = policy
	}
	i.Evicted += t.number("evicted_keys")
	i.Clients += t.number("connected_clients")
	i.Keys += t.keys
	if t.ahead != nil {
		i.ClockAhead[t.addr] = *t.ahead
	}
	i.Warnings = append(i.Warnings, t.warnings()...)
	if len(t.refused) > 0 {
		i.Warnings = append(i.Warnings, fmt.Sprintf("%s does not permit all commands for this report; give the user +%s",
			t.addr, strings.Join(t.refused, " +")))
	}
}
