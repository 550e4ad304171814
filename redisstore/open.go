package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

type options struct {
	prefix   string
	secrets  [][]byte
	nameKeys nameKeys // of the secrets
	guest    bool     // see WithExistingNames
	logger   *slog.Logger
	adjust   []func(*rueidis.ClientOption)
}

// Option sets up a store.
type Option func(*options)

// WithPrefix sets what every key begins with. The default is "stint".
func WithPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithLogger sets where the store warns of a server that will not keep limits
// well. The default is slog.Default.
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithClientOption adjusts the client that [Open] makes, for what a URL cannot
// say: a certificate authority, the Sentinels' password, a dialer. It has no
// effect on [New].
func WithClientOption(adjust func(*rueidis.ClientOption)) Option {
	return func(o *options) { o.adjust = append(o.adjust, adjust) }
}

// dialTimeout bounds a connection attempt unless the URL says otherwise.
const dialTimeout = time.Second

// A connection on which nothing has come for keepAlive is asked for a sign of life, and
// given up if there is none within silence: calls that wait on it in vain are let go, and
// the next ones try a new connection.
const (
	keepAlive = time.Second
	silence   = 2 * time.Second
)

// Open connects to the servers that a URL names, see the package comment, and
// checks that they can keep limits. A URL that cannot be read is a mistake as [ParseURL] returns it.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, err
	}
	co, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	co.DisableCache = true
	co.DisableRetry = true
	if co.Dialer.Timeout == 0 {
		co.Dialer.Timeout = dialTimeout
	}
	if co.Dialer.KeepAlive == 0 {
		co.Dialer.KeepAlive = keepAlive
	}
	if co.ConnWriteTimeout == 0 {
		co.ConnWriteTimeout = silence
	}
	if co.ClientName == "" {
		co.ClientName = "stint"
	}
	for _, adjust := range o.adjust {
		adjust(&co)
	}
	client, err := connect(co)
	if err != nil {
		return nil, fmt.Errorf("redisstore: connecting to %s: %w", strings.Join(co.InitAddress, ", "), err)
	}
	s := newStore(client, o)
	s.conn.dial = func(servers ...string) (rueidis.Client, error) {
		again := co
		if len(servers) > 0 {
			again.InitAddress = servers
		}
		return connect(again)
	}
	s.conn.owned = true
	if err := s.probe(ctx, o.logger); err != nil {
		_ = s.Close() // the client, or one that has taken its place
		return nil, fmt.Errorf("redisstore: %s: %w", strings.Join(co.InitAddress, ", "), err)
	}
	if co.TLSConfig != nil && co.TLSConfig.InsecureSkipVerify {
		o.logger.WarnContext(ctx, "stint: "+unverified, "server", strings.Join(co.InitAddress, ", "))
	}
	s.startWatch(o.logger)
	return s, nil
}

// New uses the caller's own client, which stays the caller's to close, and checks
// that its servers can keep limits. Such a client makes a connection in the time of the call
// that needs it, and has others wait for that; those of [Open] do not.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (*Store, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, err
	}
	s := newStore(client, o)
	if err := s.probe(ctx, o.logger); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s.startWatch(o.logger)
	return s, nil
}

func gather(opts []Option) (options, error) {
	o := options{prefix: "stint", logger: slog.Default()}
	for _, opt := range opts {
		opt(&o)
	}
	o.prefix = string(keypart.Append(nil, o.prefix, true))
	var err error
	o.nameKeys, err = newNameKeys(o.secrets)
	return o, err
}

var errOneOfMany = errors.New("the server is a node of a Cluster, but does not tell of the others; " +
	"its user needs the permission cluster|slots")

// probe goes through what later calls need, on a subject of its own that it leaves
// nothing of, and looks at what the servers say of themselves, where they may be asked.
func (s *Store) probe(ctx context.Context, logger *slog.Logger) error {
	// Every node gets to know the scripts of decisions, by calls that ask for nothing: the first
	// calls after a failover, or to the new owner of a slot, do not have to bring them.
	nothing := []string{rueidis.BinaryString(make([]byte, 8+8+4+1+2))}
	noStep := []string{rueidis.BinaryString(append(make([]byte, 8+8+4+1), stepNone))}
	for addr, node := range s.conn.get().Nodes() {
		ask := rueidis.Commands{
			node.B().Arbitrary("INFO").Build(),
			takeScript.whole(node, nil, nothing),
		}
		if s.cluster {
			ask = append(ask, apartScript.whole(node, nil, noStep))
		}
		for i := range 16 { // if it is one node of many, it will not have all of these slots
			if !s.cluster {
				ask = append(ask, takeScript.bySHA(node, []string{s.prefix + ":{" + strconv.Itoa(i) + "}:"}, nothing))
			}
		}
		answers := node.DoMulti(ctx, ask...)
		for _, answer := range answers[2:] {
			if refused, ok := rueidis.IsRedisErr(answer.Error()); ok {
				if _, moved := refused.IsMoved(); moved {
					return fmt.Errorf("%s: %w", addr, errOneOfMany)
				}
			}
		}
		info, err := answers[0].ToString()
		if err != nil {
			continue // not permitted, or a replica that is away; the decision below tells
		}
		said := report{addr, info}
		if err := said.tooOld(); err != nil {
			return err
		}
		if said.field("cluster_enabled") == "1" && !s.cluster {
			return fmt.Errorf("%s: %w", addr, errOneOfMany)
		}
		if policy, evicts := said.evicts(); evicts {
			logger.WarnContext(ctx, "stint: Redis "+evicting, "server", addr, "maxmemory-policy", policy)
		}
	}
	if err := s.settleNames(ctx); KindOf(err) == stint.KindAuth {
		return fmt.Errorf("the names of subjects: %w; the user needs +hgetall, and with a name key +hset and +hdel", err)
	} else if err != nil {
		return fmt.Errorf("the names of subjects: %w", err)
	}
	limits := []stint.Limit{stint.PerSecond(1), stint.TokenBucket(1, 1, time.Second), stint.AtOnce(1, time.Second)}
	subject := "probe:" + strconv.FormatUint(s.nextCall(), 36)
	d, err := s.Take(ctx, stint.Request{
		Claim: stint.Claim{Subject: subject, Cost: 1, Limits: limits},
		ID:    "probe",
		Bans:  &stint.BanPolicy{},
	})
	if err == nil {
		_, err = s.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.Settle})
	}
	if err == nil {
		err = s.Command(ctx, stint.Command{Kind: stint.Reset, Subject: subject, Limits: limits})
	}
	if err != nil {
		return fmt.Errorf("the server cannot keep limits: %w", err)
	}
	if s.cluster {
		_ = s.conn.follow(ctx) // so that the next time tells what has changed
	}
	return nil
}
