// Package memorystore is for programs that limit within one process, and for tests. It keeps what
// subjects have used in memory, and decides exactly as docs/rules.md defines. Start with [New]:
//
//	store, err := memorystore.New(memorystore.Config{})
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// # Eviction
//
// Memory is bounded. What has expired is forgotten in the background. If a call would exceed the
// bounds of [Config] nevertheless, records are evicted: one is kept for each subject and scope, and
// for each name of limits there.
//
// A record has room while at least half of each of its limits is left, and it holds no place of a
// concurrency limit and no ban. These are evicted first, wherever in the store they are: no subject
// near a limit is evicted while more than one record in 20 has room. Between one record in 32 and
// one in 20 are kept for new subjects: else, in a store full of subjects at their limits, each new
// subject would be evicted for the next, and not be limited at all. Whether a record has room is
// noted when it is inserted and when it is considered for eviction. That it has room again, by the
// passing of time or by a refund, is noted in the background, within about a minute.
//
// Among records with room, and among those without, the one with the most left of 16 goes. A ban or
// a place goes only if 512 records without room are all bans and places, places before bans.
// Evictions begin in the shard that has the most records: all of one subject is in one shard, so
// that a subject with many scopes makes room for itself. What the call itself has written goes
// last: only if nothing else is left and it does not fit into the store alone. It is then not
// counted, so MaxBytes must be well above what one request can write.
package memorystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/announce"
	"github.com/stint-limiter/stint/internal/settled"
)

// errClosed is the cause of the error of every call after Close.
var errClosed = errors.New("memory store closed")

const (
	// The defaults of Config, and the ratio of MaxSubjects to MaxBytes.
	defaultMaxSubjects = 1_000_000
	defaultMaxBytes    = 1 << 30
	// maxSubjects is the largest Config.MaxSubjects.
	maxSubjects = 1 << 30
	// maxPerShard is the number of records that an index can name, less what one call inserts.
	maxPerShard = 1<<24 - 1024
)

// Config sets up a store. The zero Config is ready for use.
type Config struct {
	// MaxSubjects bounds the subjects that are remembered. Each scope of a subject, each name of
	// limits in it and each ban counts by itself. Zero means one million for every GiB of MaxBytes,
	// at least one million and at most a billion, so that MaxBytes is the effective bound.
	MaxSubjects int
	// MaxBytes bounds the memory that they take. Zero means 1 GiB. It is counted from the sizes of
	// what is kept, within about a tenth of what the heap has. A call's writes are counted when it
	// returns. Evicted records are garbage until they are collected.
	MaxBytes int64
	// Now replaces the clock, for tests and simulations. It must be safe for concurrent use, for
	// the store's goroutine calls it too, and must not call the store. If it steps back, the rules
	// say what happens. Nil means a clock that starts at the wall's time and never steps.
	Now func() time.Time
}

// Store is a [stint.Store] in memory. See [New].
type Store struct {
	seed   maphash.Seed
	shards []shard
	shift  uint // a subject's shard is its hash shifted by this

	clock func() time.Time // Config.Now
	start time.Time        // what the default clock counts from
	epoch int64            // its wall time, in microseconds

	bounds   bounds      // of Config: above them records are evicted
	perShard int         // records at most
	own      settled.Set // charges that were settled here
	released settled.Set // those whose places were
	tables   tables

	announcements announce.List

	closed atomic.Bool
	stop   chan struct{}
	done   chan struct{}

	_               [64]byte // what is read by every call is on other cache lines than what is written
	subjects, bytes atomic.Int64
	evicted         atomic.Int64
	loads           []loads       // of the shards
	turns           atomic.Uint32 // of heaviest
	evictable       atomic.Uint32 // the class to evict from
	heavy           [classes]atomic.Uint32
}

var _ stint.Store = (*Store)(nil)

// New returns an empty store. Close it to end its goroutine.
func New(cfg Config) (*Store, error) {
	var errs []error
	if cfg.MaxSubjects < 0 || cfg.MaxSubjects > maxSubjects {
		errs = append(errs, fmt.Errorf("MaxSubjects is %d; want 0 to %d", cfg.MaxSubjects, maxSubjects))
	}
	if cfg.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is %d; want 0 or more", cfg.MaxBytes))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("memorystore: %w", errors.Join(errs...))
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	if cfg.MaxSubjects == 0 {
		cfg.MaxSubjects = defaultMaxSubjects * int(min(max(cfg.MaxBytes/defaultMaxBytes, 1), 1000))
	}
	shards := shardsFor(cfg.MaxSubjects, cfg.MaxBytes)
	s := &Store{
		seed:     maphash.MakeSeed(),
		shards:   make([]shard, shards),
		shift:    uint(64 - bits.TrailingZeros(uint(shards))),
		clock:    cfg.Now,
		start:    time.Now(),
		bounds:   bounds{int64(cfg.MaxSubjects), cfg.MaxBytes},
		perShard: maxPerShard,
		loads:    make([]loads, shards),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	s.epoch = s.start.UnixMicro()
	s.evictable.Store(uint32(roomy))
	for i := range s.shards {
		s.shards[i].open(s, i, shards)
	}
	go s.sweepUntilStopped()
	return s, nil
}

// shardsFor spreads subjects so that cores rarely meet, and so that no shard is so large that
// growing it takes long or so small that the room it has for more counts. With 32 shards per core a
// decision on one of many subjects takes 10 % longer than with 16: what is used of each shard
// itself no longer fits into the first cache.
func shardsFor(subjects int, bytes int64) int {
	want := max(16*runtime.GOMAXPROCS(0), subjects>>14)
	want = min(want, subjects/64, int(min(bytes>>16, 1024)))
	return 1 << (bits.Len(uint(max(want, 1))) - 1)
}

// Ping fails if ctx has ended or the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.ready(ctx, "ping") }

// Close ends the store's goroutine and waits for it. It never fails.
func (s *Store) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		close(s.stop)
	}
	<-s.done
	return nil
}

// read is the store's own clock in microseconds since the Unix epoch. It is read before taking a
// lock, so that others wait for less; see follow.
func (s *Store) read() int64 {
	if s.clock != nil {
		return 0
	}
	return s.epoch + time.Since(s.start).Microseconds()
}

// follow returns the time of a call that holds the shard's lock and has read the clock before: no
// earlier than that of any call that held it before. A clock of the caller's is read only here:
// where it steps back, the order counts.
func (sh *shard) follow(now int64) int64 {
	if sh.store.clock != nil {
		const latest = 1 << 54
		return min(max(sh.store.clock().UnixMicro(), 0), latest)
	}
	sh.clock = max(sh.clock, now)
	return sh.clock
}

// ready reports why a call must not go ahead.
func (s *Store) ready(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &stint.StoreError{Op: op, Err: err}
	}
	if s.closed.Load() {
		return &stint.StoreError{Op: op, Err: errClosed}
	}
	return nil
}

// Stats describes how full a store is.
type Stats struct {
	// Subjects and Bytes are what is kept, counted as [Config] bounds it by MaxSubjects and
	// MaxBytes.
	Subjects, MaxSubjects int64
	Bytes, MaxBytes       int64
	// Evicted counts the subjects that were evicted before they had expired, since the store was
	// made.
	Evicted int64
}

// Stats returns how full the store is. It takes no lock.
func (s *Store) Stats() Stats {
	return Stats{
		Subjects: s.subjects.Load(), MaxSubjects: s.bounds.subjects,
		Bytes: s.bytes.Load(), MaxBytes: s.bounds.bytes,
		Evicted: s.evicted.Load(),
	}
}
