package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
)

// fake is a store in memory, and the network to it. Its Take, and its Store, are those of another
// process that has a network of its own: they always work. What a stack calls goes through the
// network.
type fake struct {
	*memorystore.Store
	ahead atomic.Int64 // of the machine's clock, in nanoseconds

	mu   sync.Mutex
	errs map[string]error // by op; "" stands for all of them
	way
	before func(op string)
	answer func(*driver.Call) // changes an answer
	sent   [][]string         // the subjects of each batch
	flying int                // batches
	most   int                // of them at once
	lease  stint.Request      // the last that was asked for

	amends, pings, leases atomic.Int64
}

// way is what the network does to batches. A store charges nothing after a call's deadline.
type way struct {
	there, back time.Duration
	each        time.Duration // calls are answered one by one, with this time between them
	loses       bool          // answers, after the store has decided
	silent      bool          // no answer ever comes
	deaf        bool          // to contexts
}

var (
	errDown    = errors.New("down")
	errTooLate = errors.New("too late")
)

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{errs: map[string]error{}}
	f.Store = newMemory(t, memorystore.Config{
		Now: func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }})
	return f
}

// newMemory returns a store in memory that is closed when the test ends.
func newMemory(t testing.TB, c memorystore.Config) *memorystore.Store {
	t.Helper()
	return testkit.Opened(memorystore.New(c))(t)
}

func storeError(kind stint.StoreErrorKind) error {
	return &stint.StoreError{Op: opTake, Kind: kind, Err: errDown}
}

// refusedCall is the error of a call that surely was not made, unlike one to an unreachable store.
func refusedCall() error { return storeError(stint.KindRefused) }

// fail makes calls fail with an error: those of the given ops ("take", "peek", "amend", "command",
// "inspect", "ping"), or all of them. Nil lets them work again.
func (f *fake) fail(err error, ops ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ops) == 0 {
		clear(f.errs)
		ops = []string{""}
	}
	for _, op := range ops {
		f.errs[op] = err
	}
}

func (f *fake) down() { f.fail(storeError(stint.KindUnreachable)) }

// up lets everything work again, at once.
func (f *fake) up() {
	f.fail(nil)
	f.change(way{})
	f.hook(nil)
}

func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) change(to way) { f.locked(func() { f.way = to }) }

// hook sets what is called at the beginning of every call, and reply what is called with every call
// that the store has answered.
func (f *fake) hook(before func(op string))       { f.locked(func() { f.before = before }) }
func (f *fake) reply(answer func(c *driver.Call)) { f.locked(func() { f.answer = answer }) }

// batches are the subjects of each batch so far.
func (f *fake) batches() (sent [][]string) {
	f.locked(func() { sent = slices.Clone(f.sent) })
	return sent
}

// begin begins a call, and returns how it fails.
func (f *fake) begin(ctx context.Context, op string) (way, error) {
	f.mu.Lock()
	way, before, err := f.way, f.before, f.errs[op]
	if err == nil {
		err = f.errs[""]
	}
	f.mu.Unlock()
	if before != nil {
		before(op)
	}
	if way.silent {
		<-ctx.Done()
	}
	if ctx.Err() != nil && !way.deaf {
		err = &stint.StoreError{Op: op, Kind: stint.KindTimeout, Err: ctx.Err()}
	}
	return way, err
}

func (f *fake) TakeBatch(ctx context.Context, batch []*driver.Call) {
	op, subjects := "peek", []string(nil)
	f.mu.Lock()
	for _, c := range batch {
		subjects = append(subjects, c.Request.Claims[0].Subject)
		if c.Request.Mode != stint.ModePeek {
			op = opTake
		}
		if c.Request.Terms().Lease > 0 {
			f.leases.Add(1)
			f.lease = c.Request
		}
	}
	f.sent = append(f.sent, subjects)
	f.flying++
	f.most = max(f.most, f.flying)
	f.mu.Unlock()
	defer f.locked(func() { f.flying-- })
	way, err := f.begin(ctx, op)
	switch {
	case err != nil:
		for _, c := range batch {
			c.Err = err
		}
	case way.each > 0:
		for i, c := range batch {
			if i > 0 {
				time.Sleep(way.each)
			}
			f.decide(c)
			if c.Done != nil {
				c.Done()
			}
		}
	case way.there == 0 && way.back == 0:
		for _, c := range batch {
			f.decide(c)
		}
	default:
		f.travel(ctx, way, batch)
	}
	for _, c := range batch {
		if way.loses && way.each == 0 {
			c.Decision, c.Err = stint.Decision{}, storeError(stint.KindUnreachable)
		}
	}
}

// travel decides after some time, and answers after some more, if the context lasts.
func (f *fake) travel(ctx context.Context, way way, batch []*driver.Call) {
	answers := make([]driver.Call, len(batch))
	for i, c := range batch {
		answers[i] = *c
		answers[i].Request.Claims = slices.Clone(c.Request.Claims)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(way.there)
		for i := range answers {
			f.decide(&answers[i])
		}
		time.Sleep(way.back)
	}()
	if way.deaf {
		ctx = context.Background()
	}
	select {
	case <-done:
		for i, c := range batch {
			c.Decision, c.Err = answers[i].Decision, answers[i].Err
		}
	case <-ctx.Done():
		for _, c := range batch {
			c.Err = &stint.StoreError{Op: opTake, Kind: stint.KindTimeout, Err: ctx.Err()}
		}
	}
}

func (f *fake) decide(c *driver.Call) {
	var answer func(*driver.Call)
	f.locked(func() { answer = f.answer })
	if !c.Deadline.IsZero() && time.Now().After(c.Deadline) {
		c.Err = &stint.StoreError{Op: opTake, Kind: stint.KindTimeout, Err: errTooLate}
	} else {
		c.Decision, c.Err = f.Store.Take(context.Background(), c.Request)
	}
	if answer != nil {
		answer(c)
	}
}

func (f *fake) AmendBatch(ctx context.Context, batch []*driver.AmendCall) {
	f.amends.Add(1)
	_, err := f.begin(ctx, opAmend)
	for _, c := range batch {
		switch {
		case err != nil:
			c.Amended, c.Err = stint.Amended{}, err
		case c.Amendment.Kind == stint.AmendExtend && !c.Deadline.IsZero() && time.Now().After(c.Deadline):
			c.Amended, c.Err = stint.Amended{}, &stint.StoreError{Op: opAmend, Kind: stint.KindTimeout, Err: errTooLate}
		default:
			c.Amended, c.Err = f.Store.Amend(context.Background(), c.Charge, c.Amendment)
		}
	}
}

func (f *fake) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	call := driver.AmendCall{Charge: c, Amendment: a}
	f.AmendBatch(ctx, []*driver.AmendCall{&call})
	return call.Amended, call.Err
}

func (f *fake) Command(ctx context.Context, c stint.Command) error {
	if _, err := f.begin(ctx, opCommand); err != nil {
		return err
	}
	return f.Store.Command(ctx, c)
}

func (f *fake) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	if _, err := f.begin(ctx, opInspect); err != nil {
		return driver.Inspection{}, err
	}
	return f.Store.Inspect(ctx, c)
}

func (f *fake) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	if _, err := f.begin(ctx, opInspect); err != nil {
		return nil, err
	}
	return f.Store.Bans(ctx, n)
}

func (f *fake) Scopes(ctx context.Context, subject string) ([]string, error) {
	if _, err := f.begin(ctx, opInspect); err != nil {
		return nil, err
	}
	return f.Store.Scopes(ctx, subject)
}

func (f *fake) Ping(ctx context.Context) error {
	f.pings.Add(1)
	_, err := f.begin(ctx, opPing)
	return err
}

// bare is a store that can neither be pinged nor inspected.
type bare struct{ driver.BatchStore }

// alone is the configuration of a process that has the store for itself, and asks it about
// everything, however often it fails.
var alone = among(1)

// among is that of one of several processes.
func among(instances int) Config {
	return Config{Instances: instances, NoDenyCache: true, NoLeases: true, BreakerFailures: math.MaxInt}
}

// patient is a budget that holds on a busy machine too.
var patient = stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}

func newStack(t testing.TB, store driver.BatchStore, c Config) *Stack {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := testkit.Must(New(store, c))(t)
	t.Cleanup(func() {
		if f, ok := store.(*fake); ok {
			f.up() // else Close tries for a second to charge what is owed
		}
		_ = s.Close() // fails if the store is gone by then
	})
	return s
}

// over runs a test of a stack over a fake store, in virtual time.
func over(t *testing.T, c Config, test func(t *testing.T, store *fake, s *Stack)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newFake(t)
		test(t, store, newStack(t, store, c))
	})
}

// each does that for each of some cases.
func each[T any](t *testing.T, cases map[string]T, c Config, test func(t *testing.T, store *fake, s *Stack, x T)) {
	t.Helper()
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			over(t, c, func(t *testing.T, store *fake, s *Stack) { test(t, store, s, x) })
		})
	}
}

// logbook is a logger and what it was told.
type logbook struct{ testkit.Buffer }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is how many lines there are of a level, with a text in them.
func (l *logbook) count(level slog.Level, text string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// witness is an observer that writes down calls to the store, changes of the breaker, and decisions
// that the store did not make.
type witness struct {
	mu    sync.Mutex
	heard []string
	count map[Source]int // decisions by source
}

func (w *witness) Observe(_ context.Context, event stint.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *StoreCall:
		w.heard = append(w.heard, fmt.Sprintf("%s %d %v", e.Op, e.Requests, e.Err != nil))
	case *BreakerChange:
		w.heard = append(w.heard, string(e.From+" to "+e.To))
	case *Decided:
		if w.count == nil {
			w.count = map[Source]int{}
		}
		if w.count[e.Source]++; e.Source == SourceFallback {
			w.heard = append(w.heard,
				fmt.Sprintf("%s fell back: %v, %v", e.Request.Claims[0].Subject, e.Mode, errkind.Of(e.Cause)))
		}
	}
}

// take returns what was written down since it was last asked.
func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

// by is how many decisions a source has made.
func (w *witness) by(source Source) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[source]
}

func (w *witness) want(t *testing.T, want ...string) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// ask asks for units of a subject.
func ask(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: cost}}}
}

// oneUnit asks for one unit, under 1000 an hour unless told otherwise.
func oneUnit(subject string, limits ...stint.Limit) stint.Request {
	if len(limits) == 0 {
		limits = []stint.Limit{stint.PerHour(1000)}
	}
	return ask(subject, 1, limits...)
}

// and is a request with the claims of another one too.
func and(r, other stint.Request) stint.Request {
	r.Claims = slices.Concat(r.Claims, other.Claims)
	return r
}

// named is a request with an ID that lives for an hour.
func named(r stint.Request, id string) stint.Request {
	r.ID, r.IDLife = id, time.Hour
	return r
}

// peek is a request that charges nothing.
func peek(r stint.Request) stint.Request {
	r.Mode = stint.ModePeek
	return r
}

// booking is a request that books units which have no room yet.
func booking(r stint.Request) stint.Request {
	r.Mode = stint.ModeReserve
	return r
}

func banAfter(after int, first time.Duration) *stint.BanPolicy {
	return &stint.BanPolicy{After: after, Within: time.Hour, Durations: []time.Duration{first, time.Hour},
		Forgive: time.Hour}
}

func resetOf(c stint.Claim) stint.Command {
	return stint.Command{Kind: stint.CommandReset, Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}
}

// mustDecide takes, and fails on an error.
func mustDecide(t testing.TB, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	return testkit.Must(s.Take(t.Context(), r))(t)
}

// wantDecided takes, and checks the decision and whether it was made without the store.
func wantDecided(t testing.TB, s stint.Store, r stint.Request, allowed, degraded bool) {
	t.Helper()
	if d := mustDecide(t, s, r); d.Allowed != allowed || d.Degraded != degraded {
		t.Errorf("allowed %v, degraded %v, want %v, %v: %+v", d.Allowed, d.Degraded, allowed, degraded, d)
	}
}

// admitted is how many of n requests are allowed.
func admitted(t testing.TB, s stint.Store, n int, r stint.Request) (count int) {
	t.Helper()
	for range n {
		if mustDecide(t, s, r).Allowed {
			count++
		}
	}
	return count
}

// wantAdmitted checks how many of n requests are allowed.
func wantAdmitted(t testing.TB, s stint.Store, n int, r stint.Request, want int) {
	t.Helper()
	if got := admitted(t, s, n, r); got != want {
		t.Errorf("%d of %d admitted, want %d", got, n, want)
	}
}

// usageOf is what a store tells of a limit.
func usageOf(t testing.TB, s stint.Store, subject string, l stint.Limit) stint.Usage {
	t.Helper()
	d := mustDecide(t, s, peek(oneUnit(subject, l)))
	return d.Usages()[0]
}

// usedOf is what a store counts of a limit.
func usedOf(t testing.TB, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	return usageOf(t, s, subject, l).Used
}

// wantUsed checks what a store counts of a limit.
func wantUsed(t testing.TB, s stint.Store, subject string, l stint.Limit, want int64) {
	t.Helper()
	if got := usedOf(t, s, subject, l); got != want {
		t.Errorf("%s of %s: %d used, want %d", l, subject, got, want)
	}
}

// mustAmend amends, and fails on an error.
func mustAmend(t testing.TB, s stint.Store, c stint.Charge, a stint.Amendment) stint.Amended {
	t.Helper()
	return testkit.Must(s.Amend(t.Context(), c, a))(t)
}

// wantChange amends, and checks whether that changes something.
func wantChange(t testing.TB, s stint.Store, c stint.Charge, a stint.Amendment, changes bool) {
	t.Helper()
	if done := mustAmend(t, s, c, a); done.Changed != changes {
		t.Errorf("%+v: %+v, want changed %v", a, done, changes)
	}
}

// wantSettled settles a charge, and checks whether that changes something.
func wantSettled(t testing.TB, s stint.Store, c stint.Charge, cost int64, changes bool) {
	t.Helper()
	want := stint.Amended{}
	if changes {
		want = stint.Amended{Changed: true, Charged: cost}
	}
	if got := mustAmend(t, s, c, settleTo(cost)); got != want {
		t.Errorf("settled to %d: %+v, want %+v", cost, got, want)
	}
}

// mustCommand sends a command, and fails on an error.
func mustCommand(t testing.TB, s stint.Store, c stint.Command) {
	t.Helper()
	if err := s.Command(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// wantState checks the state of the breaker, once everything has come to rest.
func wantState(t *testing.T, s *Stack, want BreakerState) {
	t.Helper()
	synctest.Wait()
	if got := s.Breaker(); got != want {
		t.Fatalf("the breaker is %s, want %s", got, want)
	}
}

// observerFunc is an observer that does not care for contexts.
type observerFunc func(event stint.Event)

func (f observerFunc) Observe(_ context.Context, event stint.Event) { f(event) }

// Announcements tells nothing: tests say what is announced.
func (f *fake) Announcements(ctx context.Context, _ func(subject string, commanded bool)) error {
	<-ctx.Done()
	return ctx.Err()
}

// eachKind is a limit of each algorithm that counts units, of n times 20.
func eachKind(n int64, window time.Duration) map[string]stint.Limit {
	return map[string]stint.Limit{
		"sliding": stint.Per(20*n, window),
		"burst":   stint.Per(10*n, window).BurstTimes(2),
		"bucket":  stint.TokenBucket(20*n, 20*n, window),
		"fixed":   {Max: 20 * n, Window: window, Algorithm: stint.AlgorithmFixed},
	}
}

// outages are ways in which a store fails and charges nothing; under failures, it may charge what
// it answers too late.
var (
	outages = map[string]func(*fake){
		"refused":     func(s *fake) { s.fail(refusedCall()) },
		"unreachable": (*fake).down,
		"too slow":    func(s *fake) { s.change(way{there: lateBy}) },
	}
	failures = map[string]func(*fake){
		"refused": outages["refused"], "unreachable": outages["unreachable"], "too slow": outages["too slow"],
		"late": func(s *fake) { s.change(way{back: lateBy}) },
	}
)
