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
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/server"
)

// redisExam is a Redis under examination.
type redisExam struct {
	found  *findings
	client rueidis.Client
	info   redisstore.Info
	text   string // of INFO; "" if that is not permitted
	prefix string
	hashed bool // there is a name key
	user   string
	// cli is what commands that fix begin with.
	cli string
}

// usualPrefix is what keys begin with unless the policies say otherwise.
const usualPrefix = "stint"

// examineRedis examines a Redis.
func examineRedis(ctx context.Context, found *findings, store policy.Store) {
	where := store.URL
	e := &redisExam{found: found, prefix: cmp.Or(store.Prefix, usualPrefix), hashed: store.NameKeyFile != "", user: "default", cli: "redis-cli"}
	option, err := redisstore.ParseURL(where)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		found.fail("connection", mistake.Err.Error(), "")
		return
	}
	if u, err := url.Parse(where); err == nil {
		e.user = cmp.Or(userOf(u), e.user)
		u.User = nil // to fix needs more permissions than it has
		e.cli = "redis-cli -u " + u.String()
	}
	option.DisableCache, option.DisableRetry = true, true
	option.ClientName = "stint-doctor"
	if option.TLSConfig != nil && option.TLSConfig.InsecureSkipVerify {
		found.warn("tls", "the certificate of Redis is not verified: anyone on the way to it can read the password and change limits",
			"take skip_verify out of the URL, and have the system trust the authority of the certificate")
	}
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = 3 * time.Second
	}
	if e.client, err = rueidis.NewClient(option); err != nil {
		e.unreachable(err, where, option.InitAddress)
		return
	}
	defer e.client.Close()
	if !e.latency(ctx) {
		return
	}
	e.permissions(ctx)
	quiet := slog.New(slog.DiscardHandler)
	options, err := server.StoreOptions(store, quiet)
	if err != nil {
		found.fail("names", err.Error(), "")
		return
	}
	opened, err := redisstore.Open(ctx, where, append(options, redisstore.WithExistingNames())...)
	if errors.Is(err, redisstore.ErrNameKey) && e.noNames(ctx) {
		found.ok("names", "no name key is set yet; the first server sets it")
		opened, err = redisstore.Open(ctx, where, redisstore.WithPrefix(e.prefix), redisstore.WithLogger(quiet)) // the doctor's own subject is no secret
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		found.fail("names", err.Error(), "stint doctor with the --config that the servers have")
		return
	}
	if err != nil {
		found.fail("scripts", err.Error(), "")
		return
	}
	defer opened.Close()
	e.scripts(ctx, opened)
	if e.info, err = opened.Info(ctx); err != nil {
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

// noNames reports whether Redis has no name key yet.
func (e *redisExam) noNames(ctx context.Context) bool {
	entries, err := e.client.Do(ctx, e.client.B().Hgetall().Key(e.prefix+":names").Build()).AsStrMap()
	return err == nil && len(entries) == 0
}

// unreachable tells why there is no connection.
func (e *redisExam) unreachable(err error, where string, addresses []string) {
	at := strings.Join(addresses, ", ")
	switch whyNoRedis(err, where) {
	case redisLocked:
		e.found.fail("connection", fmt.Sprintf("%s wants a password, and the URL has none: %s", at, err), "put "+redisEnv+"="+withPassword(where)+" into the environment, and run stint doctor --store redis")
	case redisRefused:
		e.found.fail("connection", fmt.Sprintf("%s does not accept the user %q with this password: %s", at, e.user, err),
			fmt.Sprintf("%s ACL SETUSER %s on '>PASSWORD'", e.cli, e.user))
	case redisForbids:
		e.found.fail("permissions", fmt.Sprintf("the user %q may not even connect: %s", e.user, err), e.grant(allPermissions(e.prefix, e.hashed)))
	case redisSilent:
		e.found.fail("connection", fmt.Sprintf("%s does not answer: %s", at, err), "have the URL begin with rediss:// if the server speaks TLS, and with redis:// if not")
	default:
		e.found.fail("connection", fmt.Sprintf("%s: %s", at, err), "start it, or fix the URL and the network on the way: redis-cli -u URL PING")
	}
}

const (
	pings = 100
	// A decision is a round trip. slowPing leaves little of the usual budget for a decision, and poorPing nothing.
	slowPing = 5 * time.Millisecond
	poorPing = 50 * time.Millisecond
)

// latency times round trips, and reports whether there are any.
func (e *redisExam) latency(ctx context.Context) bool {
	took := make([]time.Duration, pings)
	for i := range took {
		sent := time.Now()
		err := e.client.Do(ctx, e.client.B().Ping().Build()).Error()
		if _, answered := rueidis.IsRedisErr(err); err != nil && !answered {
			e.found.fail("connection", "it is lost while it is used: "+err.Error(), "")
			return false
		}
		took[i] = time.Since(sent)
	}
	slices.Sort(took)
	p50, p99 := took[pings/2], took[pings*99/100]
	told := fmt.Sprintf("p50 %s, p99 %s of %d pings", figures.Length(p50), figures.Length(p99), pings)
	const fix = "run it nearer to stint, and see what keeps it busy: redis-cli --latency, SLOWLOG GET"
	switch {
	case p99 > poorPing:
		e.found.fail("latency", told+": decisions take at least as long", fix)
	case p99 > slowPing:
		e.found.warn("latency", told+": decisions take at least as long", fix)
	default:
		e.found.ok("latency", "%s", told)
	}
	return true
}

// scripts decides something on a subject of its own, and forgets it.
func (e *redisExam) scripts(ctx context.Context, store *redisstore.Store) {
	limits := []stint.Limit{stint.PerMinute(1)}
	subject := "doctor:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	began := time.Now()
	d, err := store.Take(ctx, stint.Request{Claim: stint.Claim{Subject: subject, Limits: limits, Cost: 1}, Bans: &stint.BanPolicy{}})
	took := time.Since(began)
	if err == nil {
		err = store.Command(ctx, stint.Command{Kind: stint.Reset, Subject: subject, Limits: limits})
	}
	switch {
	case err != nil:
		e.found.fail("scripts", err.Error(), "")
	case !d.Allowed:
		e.found.fail("scripts", "the first request of a new subject was denied: something else writes keys that begin with "+e.prefix+":", "use another database, or another prefix")
	default:
		e.found.ok("scripts", "loaded; a decision took %s", figures.Length(took))
	}
}

func (e *redisExam) version() {
	if e.info.Version != "" { // else it is not permitted to ask, which the permissions tell
		e.found.ok("version", "%s %s", e.info.Server, e.info.Version)
	}
}

func (e *redisExam) eviction() {
	switch policy := e.info.MaxMemoryPolicy; {
	case policy == "":
		return // not told
	case policy != "noeviction":
		e.found.fail("eviction", fmt.Sprintf("maxmemory-policy is %s: when it is full, limits are forgotten and subjects exceed them", policy),
			e.cli+" CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	case e.info.Evicted > 0:
		e.found.warn("eviction", fmt.Sprintf("noeviction now, but %d keys were evicted since the start", e.info.Evicted), e.cli+" CONFIG RESETSTAT, once that is known")
	default:
		e.found.ok("eviction", "noeviction")
	}
}

func (e *redisExam) memory() {
	used, most := e.info.UsedMemory, e.info.MaxMemory
	switch {
	case used == 0:
		return // not told
	case most == 0:
		e.found.ok("memory", "%s used, without maxmemory: the host's memory is the bound", megabytes(used))
	case used > most/10*9:
		e.found.warn("memory", fmt.Sprintf("%s of %s used: when it is full, every charge fails", megabytes(used), megabytes(most)),
			fmt.Sprintf("%s CONFIG SET maxmemory %d", e.cli, 2*most))
	default:
		e.found.ok("memory", "%s of %s used", megabytes(used), megabytes(most))
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// maxSkew is how far clocks may be apart before times in answers are of no use.
const maxSkew = time.Second

func (e *redisExam) clock() {
	apart := e.info.ClockAhead.Abs()
	if apart > maxSkew {
		e.found.warn("clock", fmt.Sprintf("its clock and that of this host are %s apart; its clock counts, but times in answers and bans are off", figures.Length(apart)),
			"synchronise both by NTP: timedatectl set-ntp true")
		return
	}
	e.found.ok("clock", "within %s of this host's", figures.Length(max(apart, time.Millisecond)))
}

func (e *redisExam) persistence() {
	field := func(name string) string { return infoField(e.text, name) }
	switch {
	case e.text == "":
		return
	case field("rdb_last_bgsave_status") == "err":
		e.found.fail("persistence", "the last snapshot failed, and Redis may refuse all writes until one succeeds", e.cli+" BGSAVE, after looking at its log and at the disk")
	case field("aof_enabled") == "1" && field("aof_last_write_status") == "err":
		e.found.fail("persistence", "the append-only file cannot be written, and Redis refuses all writes", "see its log, and make room on the disk")
	case field("aof_enabled") == "1":
		e.found.ok("persistence", "append-only file")
	default:
		e.found.ok("persistence", "snapshots at most: limits and bans of the last moments are forgotten when it is killed")
	}
}

func (e *redisExam) topology() {
	switch {
	case e.info.Role == "":
		return // not told
	case e.info.Role == "replica":
		e.found.fail("replication", "it is a replica, and cannot charge anybody", "use the address of its master, or Sentinel: redis://sentinel:26379?master_set=NAME")
	case e.info.Mode == "cluster":
		e.found.ok("replication", "a Cluster of %s", count(e.info.Masters, "master", "masters"))
	case e.info.Mode == "sentinel":
		e.found.ok("replication", "a master behind Sentinel")
	case infoField(e.text, "connected_slaves") != "0":
		e.found.ok("replication", "a master with %s replicas; nobody promotes one without Sentinel", infoField(e.text, "connected_slaves"))
	default:
		e.found.ok("replication", "a single server; while it is down, the failure mode of the policies decides")
	}
}

// infoField returns a field of a reply of INFO, or "".
func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
