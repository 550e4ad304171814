package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/logsample"
)

const (
	// keyTable is the store's table of the keys that sign charges. A row maps the number of a
	// period to the key that was created in that period, in hexadecimal.
	keyTable = "charge-keys"
	keySize  = 32
	// keyPeriod is the length of a period. A key signs charges until its period ends. Its
	// signatures are accepted for oldKeys more periods.
	keyPeriod = 30 * 24 * time.Hour
	oldKeys   = 13
	// keysAge is the age at which the table is read again in the background, so that a process
	// learns that a key was removed. For an unknown signature, the table is read immediately,
	// unless the last read was less than keysPause ago. keysTime is the timeout for reading the
	// table and for adding a key to it.
	keysAge   = 5 * time.Second
	keysPause = time.Second
	keysTime  = time.Second
)

// keys signs charges. Processes that share a store also share the keys, which are in the store. The
// first process that finds no key for the current period creates one. A process that knows no
// shared key signs with its own key, and then no other process can amend its charges. A process
// knows no shared key if it has not reached the store yet, or if the store has no tables.
type keys struct {
	store  driver.Keeper // nil if the store has no tables
	own    seal
	now    func() time.Time
	logger *slog.Logger
	failed logsample.Sampler

	turn chan struct{} // a semaphore of capacity 1, held while reading the table
	ring atomic.Pointer[keyRing]
}

// keyRing holds the keys in the table, as last read. It is immutable.
type keyRing struct {
	read    time.Time // time of the last read, even if it failed
	version int64
	shared  map[int64]seal // by period
	newest  *seal          // the newest shared key; nil if there is none
	failed  bool           // whether the last read failed; the keys are then from an earlier read
}

func newKeys(store stint.Store, logger *slog.Logger) *keys {
	k := &keys{own: newSeal(randomKey()), now: time.Now, logger: logger, turn: make(chan struct{}, 1)}
	k.store, _ = store.(driver.Keeper)
	k.ring.Store(&keyRing{})
	return k
}

func randomKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// signer returns the seal to sign a charge with: the newest shared key or, if the process knows
// none, its own key. stored reports whether the charge is in the store. If it is, and the process
// knows no shared key, signer first reads the table, unless the last read was less than keysAge
// ago.
func (k *keys) signer(ctx context.Context, stored bool) *seal {
	ring := k.ring.Load()
	switch {
	case ring.newest != nil:
		k.refreshSoon(ctx, ring)
	case stored && k.due(ring, keysAge):
		k.refresh(ctx)
		ring = k.ring.Load()
	}
	if ring.newest == nil {
		return &k.own
	}
	return ring.newest
}

var errKeysAway = errors.New("the keys that sign charges could not be read from the store")

// signed reports whether a signature was made with one of the keys. If no known key matches, signed
// reads the table again, unless the last read was less than keysPause ago. The error is errKeysAway
// if no known key matches and the table could not be read.
func (k *keys) signed(ctx context.Context, b, signature []byte) (bool, error) {
	ring := k.ring.Load()
	if hmac.Equal(signature, k.own.sign(b)) {
		return true, nil
	}
	if ring.signed(b, signature) {
		k.refreshSoon(ctx, ring)
		return true, nil
	}
	if k.due(ring, keysPause) && !k.refresh(ctx) {
		return false, errKeysAway
	}
	ring = k.ring.Load()
	if ring.signed(b, signature) {
		return true, nil
	}
	if ring.failed {
		return false, errKeysAway
	}
	return false, nil
}

func (r *keyRing) signed(b, signature []byte) bool {
	for _, s := range r.shared {
		if hmac.Equal(signature, s.sign(b)) {
			return true
		}
	}
	return false
}

// due reports whether at least the given time has passed since the last read of the table. It
// returns false if the store has no tables.
func (k *keys) due(ring *keyRing, after time.Duration) bool {
	return k.store != nil && k.now().Sub(ring.read) >= after
}

// refreshSoon reads the table in the background if the last read is older than keysAge.
func (k *keys) refreshSoon(ctx context.Context, ring *keyRing) {
	if !k.due(ring, keysAge) {
		return
	}
	select {
	case k.turn <- struct{}{}:
		go func() { // ends after keysTime
			defer func() { <-k.turn }()
			k.update(context.WithoutCancel(ctx))
		}()
	default: // another call is reading the table
	}
}

// refresh reads the table, or waits for another call to read it. It returns false if the read fails
// or the context ends.
func (k *keys) refresh(ctx context.Context) bool {
	before := k.ring.Load()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return false
	}
	if ring := k.ring.Load(); ring != before {
		return !ring.failed
	}
	return k.update(ctx)
}

// update reads the table, and adds a key if there is none for the current period. The caller must
// have acquired k.turn. update returns false if the store fails.
func (k *keys) update(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, keysTime)
	defer cancel()
	before := k.ring.Load()
	ring, err := k.load(ctx, before)
	if err == nil {
		period := k.now().Unix() / int64(keyPeriod/time.Second)
		if latest, ok := ring.latest(); !ok || latest < period {
			ring, err = k.add(ctx, ring, period)
		}
	}
	if err == nil {
		k.ring.Store(ring)
		return true
	}
	failed := *before
	failed.read, failed.failed = k.now(), !errors.Is(err, errors.ErrUnsupported)
	if k.ring.Store(&failed); !failed.failed {
		return true // the store has no tables
	}
	if n, ok := k.failed.Allow(1, time.Minute); ok {
		k.logger.Warn("stint: the keys that sign charges could not be read from the store", "cause", err, "unlogged", n)
	}
	return false
}

func (k *keys) load(ctx context.Context, before *keyRing) (*keyRing, error) {
	rows := map[string]string{}
	version, which, err := k.store.Kept(ctx, keyTable, before.version, func(r driver.Row) { rows[r.Name] = r.Text })
	if err != nil {
		return nil, err
	}
	ring := &keyRing{read: k.now(), version: version, shared: map[int64]seal{}}
	if which == driver.RowsChanged {
		maps.Copy(ring.shared, before.shared)
	}
	for name, text := range rows {
		period, err := strconv.ParseInt(name, 10, 64)
		if err != nil || period < 0 {
			continue
		}
		delete(ring.shared, period)
		if key, err := hex.DecodeString(text); err == nil && len(key) == keySize {
			ring.shared[period] = newSeal(key)
		}
	}
	if latest, ok := ring.latest(); ok {
		newest := ring.shared[latest]
		ring.newest = &newest
	}
	return ring, nil
}

// latest returns the latest period that has a key. If the clocks of processes differ, it may be
// later than the current period.
func (r *keyRing) latest() (period int64, ok bool) {
	for p := range r.shared {
		period, ok = max(period, p), true
	}
	return period, ok
}

// add adds a key for a period, unless another process has already added one. It also removes keys
// that are too old. It returns the new content of the table.
func (k *keys) add(ctx context.Context, ring *keyRing, period int64) (*keyRing, error) {
	row := func(period int64, text string) driver.Row {
		return driver.Row{Name: strconv.FormatInt(period, 10), Text: text}
	}
	if _, err := k.store.Keep(ctx, keyTable, []driver.Row{row(period, hex.EncodeToString(randomKey()))},
		ring.version, true); err != nil {
		return nil, err
	}
	var old []driver.Row
	for p := range ring.shared {
		if p < period-oldKeys {
			old = append(old, row(p, ""))
		}
	}
	if len(old) > 0 {
		if _, err := k.store.Keep(ctx, keyTable, old, ring.version, false); err != nil {
			return nil, err
		}
	}
	return k.load(ctx, ring)
}
