// Package memorystore keeps limits in memory, for programs that limit within one process and for
// tests. It decides exactly as docs/rules.md defines. Start with [New]:
//
//	store, err := memorystore.New(memorystore.Config{})
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// # Eviction
//
// Memory is bounded. The store keeps one record for each subject and scope, and another for each
// name that is given to limits in that scope. It forgets expired records in the background. If a
// call would still exceed the bounds of [Config], the store evicts records.
//
// A record has room while at least half of each of its limits is left, and it has no place of a
// concurrency limit, no open hold and no ban. Records with room are evicted first, wherever in the
// store they are: no subject near a limit is evicted while more than one record in 20 has room.
// When few records with room are left, between one record in 32 and one in 20, these are kept, so
// that new subjects stay in the store. Otherwise, in a store full of subjects at their limits, each
// new subject would be evicted to make room for the next, and would not be limited at all. The
// store determines whether a record has room when it inserts the record and when it considers the
// record for eviction. If a record has room again, because time has passed or units were refunded,
// the store notices that in the background, within about a minute.
//
// Among records with room, and among those without, the store compares 16 and evicts the one with
// the largest share of its limits left. It evicts a record with a ban, a place or an open hold only
// if 512 records without room all have a ban, a place or an open hold. Of these, it evicts a record
// with a ban last. Evictions begin in the shard of the call, unless another shard has many more
// records. All records of a subject are in one shard, so a subject with many scopes makes room for
// itself. The store evicts the records that the call itself has written only if no other records
// are left and these alone do not fit into the store. The units that they counted are then lost, so
// MaxBytes must be well above the size of what one request can write.
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
	"github.com/stint-limiter/stint/internal/contract"
)

var errClosed = errors.New("the memory store is closed")

const (
	// The defaults of Config. If only MaxBytes is set, above its default, MaxSubjects grows in
	// proportion.
	defaultMaxSubjects = 1_000_000
	defaultMaxBytes    = 1 << 30
	// maxSubjects is the maximum for Config.MaxSubjects.
	maxSubjects = 1 << 30
	// maxPerShard is the maximum number of records in a shard after a call. During a call, the
	// shard also has the records that the call inserts; an index can address 1<<24 - 1 records.
	maxPerShard = 1<<24 - 1024
)

// Config sets up a store. The zero Config is ready for use.
type Config struct {
	// MaxSubjects bounds the number of subjects that the store keeps. Each scope of a subject, each
	// limit name in it and each ban counts separately. Zero means one million for every GiB of
	// MaxBytes, at least one million and at most a billion, so that MaxBytes is the effective
	// bound.
	MaxSubjects int
	// MaxBytes bounds the memory that these subjects take. Zero means 1 GiB. The store sums up the
	// sizes of its records; the sum is within about a tenth of the actual heap. The writes of a
	// call are counted when the call returns. Evicted records are garbage until they are collected.
	MaxBytes int64
	// Now replaces the clock, for tests and simulations. It must not call the store. It must be
	// safe for concurrent use, because the store's goroutine calls it, too. docs/rules.md defines
	// what happens if the clock steps back. Nil means a clock that starts at the wall clock's time
	// and never steps.
	Now func() time.Time
}

// Store is a [stint.Store] in memory. See [New].
type Store struct {
	seed   maphash.Seed
	shards []shard
	shift  uint // the index of a subject's shard is the hash of the subject, shifted right by shift

	clock func() time.Time // Config.Now, or nil
	start time.Time        // start of the default clock
	epoch int64            // wall time of start, in microseconds

	bounds   bounds              // from Config; records are evicted when these are exceeded
	perShard int                 // maximum number of records per shard
	own      contract.SettledSet // charges settled through this store
	released contract.SettledSet // charges whose places were released through this store
	tables   tables

	announcements contract.Listeners

	closed atomic.Bool
	stop   chan struct{}
	done   chan struct{}

	_               [64]byte // separates the cache lines that every call reads from those that calls write
	subjects, bytes atomic.Int64
	evicted         atomic.Int64
	loads           []loads
	turns           atomic.Uint32 // number of calls to Store.heaviest
	evictable       atomic.Uint32 // class to evict from
	heavy           [classes]atomic.Uint32
}

var _ stint.Store = (*Store)(nil)

// New returns an empty store. Close it to end its goroutine. The error is a [*stint.InvalidError].
func New(cfg Config) (*Store, error) {
	var errs []error
	if cfg.MaxSubjects < 0 || cfg.MaxSubjects > maxSubjects {
		errs = append(errs, fmt.Errorf("MaxSubjects is %d; want 0 to %d", cfg.MaxSubjects, maxSubjects))
	}
	if cfg.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is %d; want 0 or more", cfg.MaxBytes))
	}
	if len(errs) > 0 {
		return nil, &stint.InvalidError{Err: fmt.Errorf("memorystore: %w", errors.Join(errs...))}
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
		tables:   tables{byName: map[string]*table{}},
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

// shardsFor returns the number of shards. There are enough shards that cores rarely contend and no
// shard takes long to grow, but not so many that their spare room matters. With 32 shards per core,
// a decision on one of many subjects takes 10% longer than with 16, because the used parts of the
// shard structs no longer fit into the first-level cache.
func shardsFor(subjects int, bytes int64) int {
	want := max(16*runtime.GOMAXPROCS(0), subjects>>14)
	want = min(want, subjects/64, int(min(bytes>>16, 1024)))
	return 1 << (bits.Len(uint(max(want, 1))) - 1)
}

// Ping fails if ctx is done or the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.ready(ctx, "ping") }

// Close ends the store's goroutine and waits for it. It never fails.
func (s *Store) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		close(s.stop)
	}
	<-s.done
	return nil
}

// read returns the time of the store's own clock in microseconds since the Unix epoch, or 0 if the
// store uses Config.Now. Calls read the time before they take a lock, so that they hold the lock
// more briefly; see follow.
func (s *Store) read() int64 {
	if s.clock != nil {
		return 0
	}
	return s.epoch + time.Since(s.start).Microseconds()
}

// follow returns the time of a call that holds the shard's lock. The parameter now is the time that
// the call read before it took the lock. With the store's own clock, the time is never earlier than
// the time of an earlier call. Config.Now may step back, and then the order of readings matters. So
// Config.Now is called only here, under the lock.
func (sh *shard) follow(now int64) int64 {
	if sh.store.clock != nil {
		const latest = 1 << 54
		return min(max(sh.store.clock().UnixMicro(), 0), latest)
	}
	sh.clock = max(sh.clock, now)
	return sh.clock
}

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
	// Subjects and Bytes are the current size of the store, counted like the bounds MaxSubjects and
	// MaxBytes of [Config].
	Subjects, MaxSubjects int64
	Bytes, MaxBytes       int64
	// Evicted counts the subjects that were evicted before they expired, since the store was
	// created.
	Evicted int64
}

// Stats returns how full the store is. It takes no locks.
func (s *Store) Stats() Stats {
	return Stats{
		Subjects: s.subjects.Load(), MaxSubjects: s.bounds.subjects,
		Bytes: s.bytes.Load(), MaxBytes: s.bounds.bytes,
		Evicted: s.evicted.Load(),
	}
}
