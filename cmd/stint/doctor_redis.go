package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/redisurl"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/redisstore"
)

type redisDiagnosis struct {
	found  *findings
	client rueidis.Client
	node   rueidis.Client // in a Cluster, a node that answers
	info   redisstore.Info
	text   string // the reply to INFO; "" if INFO is not permitted
	prefix string
	user   string
	// cli is the beginning of suggested commands: redis-cli with its connection flags.
	cli string
}

// defaultPrefix is the prefix of keys if the configuration sets none.
const defaultPrefix = "stint"

func diagnoseRedis(ctx context.Context, found *findings, store config.Store) {
	where := store.URL
	e := &redisDiagnosis{found: found, prefix: cmp.Or(store.Prefix, defaultPrefix), user: "default", cli: "redis-cli"}
	option, err := redisurl.Parse(where)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		found.fail("connection", mistake.Err.Error(), "")
		return
	}
	if u, err := url.Parse(where); err == nil {
		e.user = cmp.Or(userOf(u), e.user)
		files := tlsfiles.FromQuery(u.Query())
		// The suggested commands omit the user, who may lack the permissions to run them.
		u.User, u.RawQuery = nil, ""
		e.cli = "redis-cli -u " + u.String()
		for _, f := range []struct{ flag, path string }{
			{"cacert", files.CA}, {"cert", files.Cert}, {"key", files.Key},
		} {
			if f.path != "" {
				e.cli += " --" + f.flag + " " + f.path
			}
		}
	}
	option.DisableCache, option.DisableRetry = true, true
	option.ClientName = "stint-doctor"
	if option.TLSConfig != nil && option.TLSConfig.InsecureSkipVerify {
		found.warn("tls", "the certificate of Redis is not verified: anyone on the network path can read the password and change limits",
			"remove skip_verify from the URL, and pass the CA of the certificate with --store-ca FILE")
	}
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = 3 * time.Second
	}
	if e.client, err = rueidis.NewClient(option); err != nil {
		e.unreachable(err, where, option.InitAddress)
		return
	}
	defer e.client.Close()
	complete := e.nodes(ctx)
	if !e.latency(ctx) {
		return
	}
	if complete {
		e.permissions(ctx)
	}
	c := redisstore.Config{ExistingNames: true, Logger: slog.New(slog.DiscardHandler)}
	opened, err := openDirect(ctx, store, c)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		found.fail("names", mistake.Err.Error(), "")
		return
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		found.fail("names", err.Error(), "run stint doctor with the --config of the servers")
		return
	}
	if err != nil {
		e.failed("scripts", err)
		return
	}
	defer opened.Close()
	if complete { // otherwise the subject's key may be on a lost node
		e.scripts(ctx, opened)
	}
	if e.info, err = opened.(interface {
		Info(ctx context.Context) (redisstore.Info, error)
	}).Info(ctx); err != nil {
		found.warn("info", err.Error(), "")
		return
	}
	if text, err := e.client.Do(ctx, e.client.B().Arbitrary("INFO").Build()).ToString(); err == nil {
		e.text = text
	}
	e.version()
	e.eviction()
	e.memory()
	e.clock()
	e.persistence()
	e.topology()
}

func (e *redisDiagnosis) unreachable(err error, where string, addresses []string) {
	at := strings.Join(addresses, ", ")
	switch redisFailure(err, where) {
	case redisLocked:
		e.found.fail("connection", fmt.Sprintf("%s requires a password, and the URL has none: %s", at, err),
			"put "+redisEnv+"="+withPassword(where)+" into the environment, and run stint doctor --store redis")
	case redisRefused:
		e.found.fail("connection", fmt.Sprintf("%s does not accept the user %q with this password: %s", at, e.user,
			err),
			fmt.Sprintf("%s ACL SETUSER %s on '>PASSWORD'", e.cli, e.user))
	case redisForbids:
		e.found.fail("permissions", fmt.Sprintf("the user %q is not permitted to connect: %s", e.user, err),
			e.grant(allPermissions(e.prefix)))
	case redisSilent:
		silent := errkind.FaultOf(errkind.Silent)
		fix := silent.Fix
		if redisurl.IsTLS(where) { // a server without TLS takes the handshake for an unfinished command
			fix += " Or " + withOrWithoutTLS(where)
		}
		e.found.fail("connection", fmt.Sprintf("%s %s: %s", at, silent.Is, err), fix)
	case redisHungUp:
		e.found.fail("connection", fmt.Sprintf("%s closes the connection: %s", at, err), withOrWithoutTLS(where))
	case redisUntrusted:
		e.found.fail("connection", fmt.Sprintf("%s: %s", at, err), trustAuthority)
	case redisAbsent:
		absent := errkind.FaultOf(errkind.Unreachable)
		e.found.fail("connection", fmt.Sprintf("%s %s: %s", at, absent.Is, err), absent.Fix)
	default:
		e.failed("connection", err)
	}
}

// failed adds a finding, with a fix if one is known, for an error from a Redis server that accepts
// connections.
func (e *redisDiagnosis) failed(name string, err error) {
	kind := errkind.Diagnose(err, true)
	if text, ok := rueidis.IsRedisErr(err); ok {
		_, kind = errkind.OfReply(text.Error())
	}
	fault := errkind.FaultOf(kind)
	if kind == errkind.Other {
		e.found.fail(name, err.Error(), "")
		return
	}
	e.found.fail(name, fmt.Sprintf("Redis %s: %s", fault.Is, err), fault.Fix)
}

// nodes adds a finding if nodes of a Cluster do not answer, and reports whether all nodes answer.
func (e *redisDiagnosis) nodes(ctx context.Context) bool {
	if e.client.Mode() != rueidis.ClientModeCluster {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	type answer struct {
		addr string
		err  error
	}
	nodes := e.client.Nodes()
	answers := make(chan answer, len(nodes))
	for addr, node := range nodes {
		go func() { answers <- answer{addr, node.Do(ctx, node.B().Ping().Build()).Error()} }()
	}
	var lost []string
	for range nodes {
		a := <-answers
		if _, answered := rueidis.IsRedisErr(a.err); a.err != nil && !answered {
			lost = append(lost, a.addr)
		} else {
			e.node = nodes[a.addr]
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		fault := errkind.FaultOf(errkind.Node)
		e.found.fail("cluster", fmt.Sprintf("Redis %s: %s; permissions and scripts are not checked", fault.Is,
			strings.Join(lost, ", ")), fault.Fix)
	}
	return len(lost) == 0
}

const (
	pings = 100
	// A decision takes one round trip. slowPing is a third of the default time budget of a
	// decision, and poorPing exceeds the budget.
	slowPing = 5 * time.Millisecond
	poorPing = 50 * time.Millisecond
)

// latency measures round trips. It returns false if the connection is lost or Redis is busy.
func (e *redisDiagnosis) latency(ctx context.Context) bool {
	took := make([]time.Duration, pings)
	asked := e.client
	if e.node != nil {
		asked = e.node
	}
	for i := range took {
		sent := time.Now()
		err := asked.Do(ctx, asked.B().Ping().Build()).Error()
		if refused, answered := rueidis.IsRedisErr(err); answered {
			if kind, _ := errkind.OfReply(refused.Error()); kind == stint.KindBusy {
				e.failed("connection", err)
				return false
			}
		} else if err != nil {
			e.found.fail("connection", "the connection was lost: "+err.Error(),
				errkind.FaultOf(errkind.Unreachable).Fix)
			return false
		}
		took[i] = time.Since(sent)
	}
	slices.Sort(took)
	p50, p99 := took[pings/2], took[pings*99/100]
	result := fmt.Sprintf("p50 %s, p99 %s of %d pings", figures.Length(p50), figures.Length(p99), pings)
	const fix = "run Redis closer to stint, and check what keeps it busy: redis-cli --latency, SLOWLOG GET"
	switch {
	case p99 > poorPing:
		e.found.fail("latency", result+": decisions take at least as long", fix)
	case p99 > slowPing:
		e.found.warn("latency", result+": decisions take at least as long", fix)
	default:
		e.found.ok("latency", "%s", result)
	}
	return true
}

// scripts makes a decision on a test subject and resets the subject.
func (e *redisDiagnosis) scripts(ctx context.Context, store stint.Store) {
	limits := []stint.Limit{stint.PerMinute(1)}
	subject := "doctor:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	began := time.Now()
	d, err := store.Take(ctx, stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: 1}},
		Bans: &stint.BanPolicy{}})
	took := time.Since(began)
	if err == nil {
		err = store.Command(ctx, stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: limits})
	}
	switch {
	case err != nil:
		e.failed("scripts", err)
	case !d.Allowed:
		e.found.fail("scripts", "the first request of a new subject was denied: something else writes keys that begin with "+e.prefix+":", "use another database, or another prefix")
	default:
		e.found.ok("scripts", "loaded; a decision took %s", figures.Length(took))
	}
}

func (e *redisDiagnosis) version() {
	if e.info.Version != "" { // otherwise INFO is not permitted, which the check of permissions reports
		e.found.ok("version", "%s %s", e.info.Server, e.info.Version)
	}
}

func (e *redisDiagnosis) eviction() {
	switch policy := e.info.MaxMemoryPolicy; {
	case policy == "":
		return // the policy is unknown
	case policy != "noeviction":
		e.found.fail("eviction", fmt.Sprintf("maxmemory-policy is %s: when memory is full, usage is evicted and subjects exceed their limits",
			policy),
			e.cli+" CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	case e.info.Evicted > 0:
		e.found.warn("eviction", fmt.Sprintf("noeviction now, but %d keys were evicted since Redis started",
			e.info.Evicted), e.cli+" CONFIG RESETSTAT, once the cause is known")
	default:
		e.found.ok("eviction", "noeviction")
	}
}

func (e *redisDiagnosis) memory() {
	used, most := e.info.UsedMemory, e.info.MaxMemory
	switch {
	case used == 0:
		return // the usage is unknown
	case most == 0:
		e.found.ok("memory", "%s used, no maxmemory: only the host's memory bounds it", megabytes(used))
	case used > most/10*9:
		e.found.warn("memory", fmt.Sprintf("%s of %s used: when memory is full, every charge fails", megabytes(used),
			megabytes(most)),
			fmt.Sprintf("%s CONFIG SET maxmemory %d", e.cli, 2*most))
	default:
		e.found.ok("memory", "%s of %s used", megabytes(used), megabytes(most))
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// maxSkew is the largest clock difference that needs no warning. With a larger difference, times in
// responses are noticeably wrong.
const maxSkew = time.Second

func (e *redisDiagnosis) clock() {
	apart := time.Duration(0)
	for _, ahead := range e.info.ClockAhead {
		apart = max(apart, ahead.Abs())
	}
	if apart > maxSkew {
		e.found.warn("clock", fmt.Sprintf("the clocks of Redis and this host differ by %s; decisions use the clock of Redis, but times in responses and bans are off",
			figures.Length(apart)),
			"synchronize both with NTP: timedatectl set-ntp true")
		return
	}
	e.found.ok("clock", "within %s of this host's", figures.Length(max(apart, time.Millisecond)))
}

func (e *redisDiagnosis) persistence() {
	field := func(name string) string { return infoField(e.text, name) }
	switch {
	case e.text == "":
		return
	case field("rdb_last_bgsave_status") == "err":
		e.found.fail("persistence", "the last snapshot failed, and Redis may refuse all writes until one succeeds",
			e.cli+" BGSAVE, after checking its log and the disk")
	case field("aof_enabled") == "1" && field("aof_last_write_status") == "err":
		e.found.fail("persistence", "the append-only file cannot be written, and Redis refuses all writes",
			"check its log, and free disk space")
	case field("aof_enabled") == "1":
		e.found.ok("persistence", "append-only file")
	default:
		e.found.ok("persistence", "no append-only file: the latest usage and bans are lost if Redis is killed")
	}
}

func (e *redisDiagnosis) topology() {
	switch {
	case e.info.Role == "":
		return // the role is unknown
	case e.info.Role == "replica":
		e.found.fail("replication", "this is a replica, which cannot charge",
			"use the address of its master, or Sentinel: redis://sentinel:26379?master_set=NAME")
	case len(e.info.Lost) > 0: // already reported by the method nodes
	case e.info.Mode == "cluster":
		e.found.ok("replication", "a Cluster of %s", count(e.info.Masters, "master", "masters"))
	case e.info.Mode == "sentinel":
		e.found.ok("replication", "a master behind Sentinel")
	case infoField(e.text, "connected_slaves") != "0":
		e.found.ok("replication", "a master with %s replicas; without Sentinel, none is promoted automatically",
			infoField(e.text, "connected_slaves"))
	default:
		e.found.ok("replication", "a single server; while it is down, the failure mode of the policies applies")
	}
}

// infoField returns a field of a reply to INFO, or "" if the field is missing.
func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
