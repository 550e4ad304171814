// Package overrides changes the limits of single subjects at run time, for instance to give one
// customer more until Friday without a deployment. The store keeps the overrides. Every process
// that opens the table keeps a copy in memory and asks for changes twice a second. Decisions make
// no extra calls to the store.
//
//	table, err := overrides.Open(ctx, store, overrides.Config{})
//	...
//	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Overrides: table})
//	...
//	err = table.Set(ctx, overrides.Override{Subject: "user:42", Policy: "api",
//		Limits: []stint.Limit{stint.PerMinute(500)}, Until: friday, Why: "TICKET-7"})
//
// A subject keeps its usage: an override changes only the maximum and the burst of a limit, neither
// of which is part of the name under which the store keeps the usage. The larger of the configured
// and the overriding limit applies, even if the configured one is raised later. An override with
// [Override.Lower] always applies.
//
// While the store is unavailable, the last known overrides apply. A process that starts during that
// time has no overrides until the store is available. If the store loses its data, the processes
// that have opened the table restore the overrides.
package overrides

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/label"
)

// MaxOverrides is the maximum number of overrides in a table.
const MaxOverrides = 1_000_000

const (
	tableName = "overrides"
	// separator separates subject and policy in the name of a row. Policy names cannot contain it.
	separator = "\x00"

	pollEvery  = 500 * time.Millisecond
	sweepEvery = time.Minute
	sweepMost  = 1000
	// sweepAfter is the time for which an override is kept after its end. It is long, so that an
	// override is not removed while an operator extends it.
	sweepAfter = time.Hour

	// maxParsed is the maximum number of lists of limits that are kept in parsed form. Usually,
	// many subjects share a list.
	maxParsed = 10_000
)

// Config configures a [Table]. The zero Config is ready to use.
type Config struct {
	// Logger receives warnings. Nil means slog.Default().
	Logger *slog.Logger
}

// Table holds the overrides of a store. It is safe for concurrent use.
type Table struct {
	store  driver.Keeper
	config Config
	stop   context.CancelFunc
	ended  sync.WaitGroup

	n    atomic.Int64 // number of rows
	none unlisted

	// turn is a channel that serves as a lock: it holds a value while a call reads or writes the
	// table in the store. The lock ensures that the results of these calls are applied in order.
	turn    chan struct{}
	version int64 // guarded by turn
	failing bool  // whether the last update by Open or follow failed

	mu       sync.RWMutex
	rows     map[string]string        // stored texts of overrides, by the names of their rows
	limits   map[string][]stint.Limit // parsed lists of limits, by their texts
	policies map[string]struct{}      // policies of all rows so far, including removed ones
}

// Open returns the table of overrides in a store, and keeps it up to date until it is closed. If
// the store does not answer before ctx ends, the table is empty until the store answers.
func Open(ctx context.Context, store stint.Store, c Config) (*Table, error) {
	if _, err := stint.New(store); err != nil { // the store is nil
		return nil, err
	}
	keeper, ok := store.(driver.Keeper)
	if !ok {
		return nil, &stint.InvalidError{
			Err: fmt.Errorf("overrides: the store, a %T, keeps no tables: %w", store, errors.ErrUnsupported)}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	t := &Table{store: keeper, config: c, none: unlisted{seed: maphash.MakeSeed()}, turn: make(chan struct{}, 1),
		rows: map[string]string{}, limits: map[string][]stint.Limit{}, policies: map[string]struct{}{}}
	err := t.update(ctx, t.poll)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	t.complain(err)
	life, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.ended.Go(func() { t.follow(life) })
	return t, nil
}

// Close stops updating the table.
func (t *Table) Close() {
	t.stop()
	t.ended.Wait()
}

// Len returns the number of overrides, including those that have ended but have not been removed
// yet.
func (t *Table) Len() int { return int(t.n.Load()) }

// Limits returns the limits of a subject under a policy or tier, given its configured limits. It
// returns the given slice if there is no override.
func (t *Table) Limits(subject, policy string, configured []stint.Limit) []stint.Limit {
	if t.n.Load() == 0 {
		return configured
	}
	mark := t.none.mark(subject)
	if t.none.has(mark) {
		return configured
	}
	text, ok, others := t.find(policy, t.store.StoredName(subject))
	if !ok {
		if !others {
			t.none.add(mark)
		}
		return configured
	}
	h, ok := headOf(text)
	if !ok || h.ended(time.Now()) {
		return configured
	}
	return apply(configured, t.parsed(h.limits), h.lower)
}

// find returns the text of the row for a subject and a policy. If there is none, find reports
// whether the subject has rows for other policies. name is the stored name of the subject.
func (t *Table) find(policy, name string) (text string, ok, others bool) {
	var room [128]byte
	key := append(append(room[:0], name...), separator...)
	t.mu.RLock()
	defer t.mu.RUnlock()
	if text, ok = t.rows[string(append(key, policy...))]; ok {
		return text, true, false
	}
	for policy := range t.policies {
		if _, others = t.rows[string(append(key, policy...))]; others {
			return "", false, true
		}
	}
	return "", false, false
}

// parsed returns the limits that text lists. The text is valid, because put has parsed it.
func (t *Table) parsed(text string) []stint.Limit {
	t.mu.RLock()
	limits, ok := t.limits[text]
	t.mu.RUnlock()
	if !ok {
		limits, _ = parseLimits(text)
	}
	return limits
}

// Set makes an override. It replaces the override of the same subject and policy, if there is one.
// When Set returns nil, the override is in force in this process. Other processes apply it within a
// second.
func (t *Table) Set(ctx context.Context, o Override) error { return t.SetAll(ctx, []Override{o}) }

// SetAll makes several overrides. If it fails, it may have made some of them.
func (t *Table) SetAll(ctx context.Context, all []Override) error {
	now := time.Now()
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return &stint.InvalidError{Err: fmt.Errorf("override of %s under %s: %w", label.Short(all[i].Subject),
				all[i].Policy, contract.Mistakes(err))}
		}
	}
	return t.update(ctx, func(ctx context.Context) error {
		if err := t.poll(ctx); err != nil {
			return err
		}
		rows, more := make([]driver.Row, len(all)), 0
		for i := range all {
			o := all[i]
			o.Made = now
			rows[i] = driver.Row{Name: t.name(o.Subject, o.Policy), Text: o.text()}
			if _, ok := t.text(rows[i].Name); !ok {
				more++
			}
		}
		if t.Len()+more > MaxOverrides {
			return &stint.InvalidError{Err: fmt.Errorf("there are already %d overrides, of at most %d; "+
				"use limits from claims or from your database", t.Len(), MaxOverrides)}
		}
		return t.keep(ctx, rows)
	})
}

// Unset removes the override of a subject under a policy. It reports whether there was one.
func (t *Table) Unset(ctx context.Context, subject, policy string) (was bool, err error) {
	err = t.update(ctx, func(ctx context.Context) error {
		if err := t.poll(ctx); err != nil {
			return err
		}
		name := t.name(subject, policy)
		if _, was = t.text(name); !was {
			return nil
		}
		return t.keep(ctx, []driver.Row{{Name: name}})
	})
	return was && err == nil, err
}

// All returns the overrides in force, sorted by subject and policy. It returns subjects as they are
// stored: as hashes if the store has a name key.
func (t *Table) All() []Override {
	all, _ := t.List("", MaxOverrides)
	return all
}

// List returns the first n overrides in force whose subjects begin with a prefix, sorted by subject
// and policy, and the total number of overrides in force with that prefix. It returns subjects as
// they are stored: as hashes if the store has a name key.
func (t *Table) List(prefix string, n int) (first []Override, total int) {
	now := time.Now()
	var names []string
	t.mu.RLock()
	for name, text := range t.rows {
		if h, ok := headOf(text); ok && strings.HasPrefix(name, prefix) && !h.ended(now) {
			names = append(names, name)
		}
	}
	t.mu.RUnlock()
	slices.Sort(names)
	for _, name := range names[:min(n, len(names))] {
		text, _ := t.text(name)
		if o, err := read(name, text); err == nil { // the row may have been removed meanwhile
			first = append(first, o)
		}
	}
	return first, len(names)
}

// Of returns the overrides of a subject that are in force, sorted by policy.
func (t *Table) Of(subject string) []Override {
	t.mu.RLock()
	policies := slices.Sorted(maps.Keys(t.policies))
	t.mu.RUnlock()
	var all []Override
	for _, policy := range policies {
		name := t.name(subject, policy)
		text, ok := t.text(name)
		if h, _ := headOf(text); !ok || h.ended(time.Now()) {
			continue
		}
		if o, err := read(name, text); err == nil {
			o.Subject = subject
			all = append(all, o)
		}
	}
	return all
}

// name returns the name of the row for a subject and a policy. The subject may also be a hash that
// [Table.List] has returned.
func (t *Table) name(subject, policy string) string {
	stored := t.store.StoredName(subject)
	if stored != subject && keypart.IsHashed(subject) {
		stored = subject
	}
	return stored + separator + policy
}

func (t *Table) text(name string) (text string, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	text, ok = t.rows[name]
	return text, ok
}

// update acquires t.turn and then calls do, which reads or writes the table in the store.
func (t *Table) update(ctx context.Context, do func(context.Context) error) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.turn }()
	return do(ctx)
}

func (t *Table) keep(ctx context.Context, rows []driver.Row) error {
	version, err := t.store.Keep(ctx, tableName, rows, t.version, false)
	if err == nil {
		t.apply(rows, version, false)
	}
	return err
}

// apply applies rows that were read from the store or written to it. If all is true, they replace
// the whole table.
func (t *Table) apply(rows []driver.Row, version int64, all bool) {
	t.mu.Lock()
	if all {
		t.rows, t.limits = map[string]string{}, map[string][]stint.Limit{} // without a size hint, a map wastes less memory
	}
	for _, r := range rows {
		t.put(r)
	}
	t.n.Store(int64(len(t.rows)))
	t.mu.Unlock()
	t.version = version
	t.none.clear()
}

// put applies one row. The caller must hold t.mu.
func (t *Table) put(r driver.Row) {
	h, ok := headOf(r.Text)
	if _, known := t.limits[h.limits]; ok && !known {
		limits, err := parseLimits(h.limits)
		if ok = err == nil; ok && len(t.limits) < maxParsed {
			t.limits[strings.Clone(h.limits)] = limits
		}
	}
	if !ok { // the row was removed, or another version of this package wrote it
		delete(t.rows, r.Name)
		return
	}
	both := r.Name + r.Text // one allocation for both strings
	t.rows[both[:len(r.Name)]] = both[len(r.Name):]
	_, policy := cutName(r.Name)
	if _, known := t.policies[policy]; !known {
		t.policies[strings.Clone(policy)] = struct{}{}
	}
}

// follow polls for changes, and regularly removes old overrides, until the table is closed.
func (t *Table) follow(life context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	swept := time.Now()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		err := t.update(life, t.poll)
		if err == nil && time.Since(swept) >= sweepEvery {
			swept = time.Now()
			err = t.update(life, t.sweep)
		}
		if life.Err() == nil {
			t.complain(err)
		}
	}
}

// complain logs err, the error of an update by Open or follow. Of several errors in a row, it logs
// only the first. A nil err means that the update succeeded.
func (t *Table) complain(err error) {
	if err != nil && !t.failing {
		t.config.Logger.Warn("stint: overrides cannot be read; the last known ones apply", "cause", err)
	}
	t.failing = err != nil
}

// poll applies the changes that the store has received since the last poll. If the store has lost
// rows, poll puts them back.
func (t *Table) poll(ctx context.Context) error {
	var rows []driver.Row
	version, which, err := t.store.Kept(ctx, tableName, t.version, func(r driver.Row) { rows = append(rows, r) })
	switch {
	case err != nil:
		return err
	case which == driver.RowsLeft:
		return t.restore(ctx, rows, version)
	case version != t.version:
		t.apply(rows, version, which == driver.RowsAll)
	}
	return nil
}

// restore puts back rows that the store has lost. The argument left holds the rows that the store
// still has. If a row in the store differs from this process's copy, restore keeps the override
// that was made later.
func (t *Table) restore(ctx context.Context, left []driver.Row, version int64) error {
	has := make(map[string]string, len(left))
	for _, r := range left {
		has[r.Name] = r.Text
	}
	var lost, older []driver.Row
	t.mu.RLock()
	for name, text := range t.rows {
		theirs, ok := split(has[name])
		switch mine, _ := split(text); {
		case !ok:
			lost = append(lost, driver.Row{Name: name, Text: text})
		case mine.made > theirs.made:
			older = append(older, driver.Row{Name: name, Text: text})
		}
	}
	t.mu.RUnlock()
	if len(lost)+len(older) == 0 {
		t.apply(left, version, true)
		return nil
	}
	t.config.Logger.Warn("stint: the store has lost overrides; this process puts back those that it knows",
		"lost", len(lost)+len(older))
	_, err := t.store.Keep(ctx, tableName, lost, t.version, true)
	if err == nil && len(older) > 0 {
		_, err = t.store.Keep(ctx, tableName, older, 0, false)
	}
	if err != nil {
		return err
	}
	var all []driver.Row
	version, _, err = t.store.Kept(ctx, tableName, 0, func(r driver.Row) { all = append(all, r) })
	if err == nil && version > 0 {
		t.apply(all, version, true)
	}
	return err
}

// sweep removes up to sweepMost overrides that ended more than sweepAfter ago.
func (t *Table) sweep(ctx context.Context) error {
	before := time.Now().Add(-sweepAfter)
	var ended []driver.Row
	t.mu.RLock()
	for name, text := range t.rows {
		if h, ok := headOf(text); ok && h.ended(before) && len(ended) < sweepMost {
			ended = append(ended, driver.Row{Name: name})
		}
	}
	t.mu.RUnlock()
	if len(ended) == 0 {
		return nil
	}
	return t.keep(ctx, ended)
}
