package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/redisurl"
)

// Config sets up a store. Only URL or Client is required.
type Config struct {
	// URL names the servers. The package comment lists its forms.
	URL string
	// Client is used instead of a URL. The caller closes it, and its options determine its
	// connections.
	Client rueidis.Client
	// AdjustClient changes the options of the client that Open makes, for settings that a URL
	// cannot express, such as the Sentinels' password or a dialer. If there is no URL, it must set
	// InitAddress, too. It has no effect on Client. It may be nil.
	AdjustClient func(*rueidis.ClientOption)
	// Prefix is the beginning of every key, followed by a colon. It is escaped like subjects:
	// letters, digits, colons and common punctuation stay, other bytes become "%XX", and a prefix
	// of more than 128 bytes becomes a hash. The default is "stint".
	Prefix string
	// Logger receives warnings, for instance about servers that may evict limits. The default is
	// slog.Default().
	Logger *slog.Logger

	// NameKeys are the keys for hashing names, so that Redis contains no names: the current key,
	// then previous ones. A hash with such a key replaces every subject, every request id, and the
	// part of a scope after its first colon. The word before the first colon of a subject stays
	// readable, as in "user#4kWXjsbSBbkYkHdLyaQgIQ"; put no names there. [Store.Bans] and
	// [Store.Scopes] list the hashed form. Inspect and Command accept it, except for
	// [stint.CommandGiveBack]. All other calls take subjects in plain text. A subject with a colon
	// is never mistaken for a hashed one. So if users choose their names, begin subjects with a
	// kind, such as "user:".
	//
	// All processes need the same key, of at least 32 random bytes; Open fails with [ErrNameKey] if
	// Redis is in use with another key. To replace a key, give every process the new key followed
	// by the old one: all of them keep using the old one. Then drop the old one. The first process
	// that has only the new key begins to use it, and those that have both follow within two
	// seconds. From then on, usage under the old key is ignored: subjects start over, as if Redis
	// had lost its data. The same happens when the first key is introduced.
	//
	// The default is no key: names are not hashed.
	NameKeys [][]byte
	// ExistingNames is for short-lived commands. With it, a process with a name key uses the name
	// key that is in use in Redis, and never sets or replaces it.
	ExistingNames bool
}

// dialTimeout is the maximum duration of a connection attempt, unless the URL sets a different one.
const dialTimeout = time.Second

// keepAlive is how long the client waits for data on a connection before it pings the server. The
// constant silence is how long it then waits for data before it closes the connection: calls that
// wait on the connection fail, and later calls use a new one.
const (
	keepAlive = time.Second
	silence   = 2 * time.Second
)

// bufferSize is the size of each of the two buffers of a connection. Larger messages are sent and
// read in parts.
const bufferSize = 32 << 10

// unverified is the warning about skip_verify.
const unverified = "the TLS certificate of Redis is not verified (skip_verify): " +
	"anyone on the network path to it can read the password and change limits"

// openTime is the maximum time for which [Open] waits for the first attempt to connect.
const openTime = time.Second

// Open opens a store. It returns when the first attempt to connect has ended, after one second, or
// when ctx ends, whichever comes first; ctx does not affect the store afterwards. The store keeps
// trying to connect in the background, about every second. Until it has succeeded, every call fails
// with the cause. [Store.Ping] returns that cause, too.
//
// Open returns an error only for a problem that waiting does not fix: a mistake in the Config, as a
// [*stint.InvalidError], which reveals nothing of the URL; [ErrNameKey]; or a canceled ctx.
func Open(ctx context.Context, c Config) (*Store, error) {
	c.Prefix = string(keypart.Append(nil, cmp.Or(c.Prefix, "stint"), true))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	keys, err := newNameKeys(c.NameKeys)
	if err != nil {
		return nil, err
	}
	s := newStore(c, keys)
	attempt := s.check
	if c.Client != nil {
		s.conn.client.Store(&c.Client)
	} else {
		co, err := options(c)
		if err != nil {
			return nil, err
		}
		s.conn.cause = fmt.Errorf("%w to %s", errConnecting, strings.Join(co.InitAddress, ", "))
		if s.conn.most = int32(co.BlockingPoolSize); !co.DisableAutoPipelining {
			s.conn.most = 0
		}
		s.conn.dial = func(ctx context.Context, servers ...string) (rueidis.Client, error) {
			again := co
			if len(servers) > 0 {
				again.InitAddress = servers
			}
			return s.conn.newClient(ctx, again)
		}
		attempt = func(ctx context.Context) error { return s.connect(ctx, co) }
	}
	s.conn.start(attempt)
	within, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	err = s.conn.await(within)
	if canceled := ctx.Err(); err != nil && errors.Is(canceled, context.Canceled) {
		_ = s.Close()
		return nil, canceled
	}
	if _, invalid := errors.AsType[*stint.InvalidError](err); invalid || errors.Is(err, ErrNameKey) {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// options returns the client options for a Config with a URL. Commands marked with ToPipe use the
// shared connection. Every other call uses a separate connection.
func options(c Config) (rueidis.ClientOption, error) {
	co, err := redisurl.Parse(c.URL)
	if err != nil && c.URL != "" {
		return co, err
	}
	co.DisableCache = true
	co.DisableRetry = true
	co.DisableAutoPipelining = true
	co.BlockingPoolSize = ownConnections
	co.PipelineMultiplex = -1 // one shared connection
	co.ReadBufferEachConn, co.WriteBufferEachConn = bufferSize, bufferSize
	co.Dialer.Timeout = cmp.Or(co.Dialer.Timeout, dialTimeout)
	co.Dialer.KeepAlive = cmp.Or(co.Dialer.KeepAlive, keepAlive)
	co.ConnWriteTimeout = cmp.Or(co.ConnWriteTimeout, silence)
	co.ClientName = cmp.Or(co.ClientName, "stint")
	if c.AdjustClient != nil {
		c.AdjustClient(&co)
	}
	if len(co.InitAddress) == 0 { // neither a URL nor an address
		return co, err
	}
	return co, nil
}

func (s *Store) connect(ctx context.Context, co rueidis.ClientOption) error {
	addrs := strings.Join(co.InitAddress, ", ")
	client, err := s.conn.dial(ctx)
	if err != nil {
		err = wrap("open", fmt.Errorf("connecting to %s: %w", addrs, err))
		if failed, ok := err.(*stint.StoreError); ok && co.TLSConfig != nil && failed.Kind == stint.KindTimeout {
			failed.Err = fmt.Errorf("%w; does the server use TLS? If not, use redis://", failed.Err)
		}
		return err
	}
	s.conn.client.Store(&client)
	if err := s.check(ctx); err != nil {
		client.Close()
		s.conn.client.Store(nil)
		return wrap("open", fmt.Errorf("%s: %w", addrs, err))
	}
	s.warm(ctx)
	if co.TLSConfig != nil && co.TLSConfig.InsecureSkipVerify {
		s.logger.WarnContext(ctx, "stint: "+unverified, "server", addrs)
	}
	return nil
}

// warm makes a connection for batches to each master, so that the first batch does not have to use
// the shared connection.
func (s *Store) warm(ctx context.Context) {
	if !s.cluster {
		s.conn.grow(ctx, "")
		return
	}
	var group sync.WaitGroup
	masters := map[string]bool{}
	for _, owner := range s.conn.knownMasters() {
		if !masters[owner.addr] {
			masters[owner.addr] = true
			group.Go(func() { s.conn.grow(ctx, owner.addr) })
		}
	}
	group.Wait()
}

// check checks that the servers can keep limits, and starts to watch the name key in Redis.
func (s *Store) check(ctx context.Context) error {
	s.cluster = s.conn.get().Mode() == rueidis.ClientModeCluster
	if err := s.probe(ctx); err != nil {
		return err
	}
	if len(s.nameKeys) > 0 {
		s.conn.work.Go(func() { s.watchNames(s.conn.life) })
	}
	return nil
}

var errOneOfMany = errors.New("the server is a node of a Cluster, but does not list the other nodes; " +
	"its user needs the permission cluster|slots")

// probe tries the commands that later calls need, on a subject that is used for nothing else, and
// then resets that subject. It also reads the servers' reports, where that is permitted.
func (s *Store) probe(ctx context.Context) error {
	// Load the decision script on every node with a call that decides nothing, so that calls need
	// not load it after a failover, or when a slot has moved to another node.
	nothing := []string{rueidis.BinaryString(make([]byte, 8+8+4+1+2))}
	for addr, node := range s.conn.get().Nodes() {
		ask := rueidis.Commands{
			node.B().Arbitrary("INFO").Build().ToPipe(),
			takeScript.whole(node, nil, nothing),
		}
		for i := range 16 { // a Cluster of several nodes refuses some of these slots as moved
			if !s.cluster {
				ask = append(ask, takeScript.bySHA(node, []string{s.prefix + ":{" + strconv.Itoa(i) + "}:"}, nothing))
			}
		}
		answers := node.DoMulti(ctx, ask...)
		for _, answer := range answers[1:] {
			if refused, ok := rueidis.IsRedisErr(answer.Error()); ok {
				if _, moved := refused.IsMoved(); moved {
					return fmt.Errorf("%s: %w", addr, errOneOfMany)
				}
			}
		}
		info, err := answers[0].ToString()
		if err != nil {
			continue // not permitted, or a replica is unavailable; the decision below will show which
		}
		server := report{addr, info}
		if err := server.tooOld(); err != nil {
			return err
		}
		if server.field("cluster_enabled") == "1" && !s.cluster {
			return fmt.Errorf("%s: %w", addr, errOneOfMany)
		}
		if policy, evicts := server.evicts(); evicts {
			s.logger.WarnContext(ctx, "stint: Redis "+evicting, "server", addr, "maxmemory-policy", policy)
		}
	}
	use, err := s.settleNames(ctx)
	if failureKind(err) == stint.KindAuth {
		err = fmt.Errorf("%w; the user needs +hgetall, and with a name key +hset and +hsetnx", err)
	}
	if err != nil {
		return fmt.Errorf("reading the name key: %w", err)
	}
	s.names.Store(use)
	limits := []stint.Limit{stint.PerSecond(1), stint.TokenBucket(1, 1, time.Second), stint.Concurrency(1, time.Second)}
	subject := "probe:" + strconv.FormatUint(s.nextCall(), 36)
	d, err := s.take(ctx, stint.Request{
		Claims: []stint.Claim{{Subject: subject, Cost: 1, Limits: limits}},
		ID:     "probe",
		Bans:   &stint.BanPolicy{},
	})
	if err == nil {
		_, err = s.amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
	}
	if err == nil {
		err = s.command(ctx, stint.Command{Kind: stint.CommandReset, Subject: subject, Limits: limits})
	}
	if err != nil {
		return fmt.Errorf("the server cannot keep limits: %w", err)
	}
	if s.cluster {
		_ = s.conn.follow(ctx) // so that the next ping can detect changes
	}
	return nil
}
