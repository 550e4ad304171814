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

// Info is what the servers report, added up over the masters of a Cluster. What they do not report
// is zero, with a warning.
type Info struct {
	// Mode is "standalone", "sentinel" or "cluster", and Masters how many servers there are to ask.
	Mode    string
	Masters int
	// Server is "Redis" or "Valkey", and Version its version: the lowest, if servers differ; "" if
	// not known.
	Server, Version string
	// Role is "master", or "replica" if one of the servers is.
	Role string

	OpsPerSecond int64
	// UsedMemory is in bytes, as is MaxMemory, which is 0 if there is no bound.
	UsedMemory, MaxMemory int64
	// MemoryShare is how full the memory of the fullest server is: 0.9 of what it may use. It is 0
	// without a bound.
	MemoryShare float64
	// CPUTime is how long the main thread of each server has been busy since its start, by address:
	// a server executes commands on one core.
	CPUTime map[string]time.Duration
	// MaxMemoryPolicy is what a full server does: "noeviction", or the policy of one that throws
	// keys away.
	MaxMemoryPolicy string
	// Evicted is how many keys the servers have thrown away, since they were started.
	Evicted int64
	// Clients are connected, all those of other programs included.
	Clients int64
	// Keys are those of the database that is used.
	Keys int64

	// Lost are masters of a Cluster that do not answer, by address. They are not among the Masters.
	Lost []string

	// ClockAhead is how far each server's clock is ahead of the wall clock of this process, by
	// address, as far as that is known to half a second.
	ClockAhead map[string]time.Duration

	// NotGivenBack is how many charges of requests on several subjects, of a Cluster, this process
	// could not give back although the requests were denied: they count until they leave their
	// windows.
	NotGivenBack int64

	// Warnings are sentences about what is wrong, and what would be right.
	Warnings []string
}

// Info asks the servers how they are. What the user is not permitted to ask is left out, and there
// is a warning. An error means that none of them could be asked.
func (s *Store) Info(ctx context.Context) (Info, error) {
	if err := s.await(ctx, "info"); err != nil {
		return Info{}, err
	}
	i := Info{Mode: string(s.conn.get().Mode()), NotGivenBack: s.backs.dropped.Load()}
	nodes, lost, err := s.servers(ctx, "")
	if err != nil {
		return i, s.wrap("info", err)
	}
	// All at a time, each within its time: a silent one does not use up that of the others.
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

// infoTime is how long a server may take to report.
const infoTime = time.Second

// serverInfo is what one server reports.
type serverInfo struct {
	report
	keys    int64
	ahead   *time.Duration // of our clock; nil if not known
	refused []string       // commands
}

// ask asks a server for its report.
func ask(ctx context.Context, addr string, node rueidis.Client) (serverInfo, error) {
	t := serverInfo{report: report{addr: addr}}
	// unless passes on an error, but for that of a command that is not permitted.
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

// add adds the report of a server.
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
		i.Warnings = append(i.Warnings, fmt.Sprintf("%s does not permit to ask all of how it is; give the user +%s",
			t.addr, strings.Join(t.refused, " +")))
	}
}
