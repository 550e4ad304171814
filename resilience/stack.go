package resilience

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

// Stack is a [stint.Store] that stays fast and reliable even if the store below it is far away,
// slow or down.
type Stack struct {
	config  Config
	denials *denyCache // nil if switched off
	leases  *leases    // nil if switched off
	batch   *batch     // for decisions
	amends  *batch     // for amendments
	store   *breaker
	ledger  *ledger
	sender  sender
	outage  outageLog
	sharing sharing

	listeners  contract.Listeners // see Announcements
	heardSince atomic.Int64       // when announcements began, by the ledger's clock; 0 if none are received

	start time.Time
	life  context.Context // canceled by end, to stop the goroutines
	end   context.CancelFunc
	mu    sync.Mutex // guards ended
	ended bool
	work  sync.WaitGroup
}

var (
	_ stint.Store      = (*Stack)(nil)
	_ driver.Announcer = (*Stack)(nil)
)

// New returns a stack on top of a store:
//
//	redis, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://localhost:6379/0"})
//	...
//	store, err := resilience.New(redis, resilience.Config{})
//	...
//	defer store.Close() // before redis.Close
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// The stack uses these optional interfaces and methods if the store has them. The store of package
// redisstore has all of them:
//
//   - [driver.BatchAmender] amends many charges in one call.
//   - [driver.Roster] counts the processes, and notices when the store has lost data.
//   - [driver.Announcer] announces the subjects that a refund or a command of any process affects.
//   - [driver.Inspector] shows usage, and [driver.Keeper] keeps tables.
//   - Ping(ctx) error reports cheaply whether the store responds.
func New(store driver.BatchStore, c Config) (*Stack, error) {
	if _, err := stint.New(store); err != nil { // store is nil
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	ledger, err := newLedger(&c)
	if err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	s := &Stack{config: c, ledger: ledger, start: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	s.sharing.startup, s.sharing.endStartup = context.WithDeadline(s.life, s.start.Add(startTime))
	s.store = newBreaker(store, s)
	s.batch, s.amends = newBatch(opTake, s.store, ledger, c), newBatch(opAmend, s.store, ledger, c)
	s.sender = sender{stack: s}
	s.outage.logger, s.outage.worse = c.Logger, make(chan struct{}, 1)
	ledger.instances, ledger.later = func() int64 { return int64(s.Instances()) }, &s.sender
	if !c.NoLeases {
		s.leases = newLeases(s)
	}
	if !c.NoDenyCache {
		s.denials = newDenyCache(c)
	}
	if roster, ok := store.(driver.Roster); ok {
		s.run(func() { s.countInstances(roster) })
	} else {
		s.sharing.endStartup()
	}
	if announcer, ok := store.(driver.Announcer); ok {
		s.run(func() { s.listen(announcer) })
	}
	return s, nil
}

// Take implements [stint.Store]. A request is answered by the first of these that can: the deny
// cache, a lease, the store within the time budget, or this process without the store.
func (s *Stack) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	// Answers from memory do not use a question, which would make them take 50% longer.
	leased := s.leases != nil && leasable(&r)
	asked := s.start.Add(time.Since(s.start)) // reads only the monotonic clock, which takes half the time
	if leased {
		asked = time.Now() // leases need both clocks
	}
	var id denialID
	if s.denials != nil {
		if id = s.denials.identify(&r); s.denials.repeat(id, &r, &d, asked) {
			observeMemory(ctx, s.config.Observer, SourceDenyCache, &r, &d)
			return d, nil
		}
	}
	var part *leasedPart
	if leased {
		var served bool
		if part, served = s.serve(&r, &d, asked); served {
			observeMemory(ctx, s.config.Observer, SourceLease, &r, &d)
			return d, nil
		}
	}
	if d, err = s.take(ctx, &r, part, asked); err != nil {
		return d, err
	}
	if leased && !d.Degraded {
		s.leases.learn(&r, &d, asked)
	}
	if s.denials != nil {
		s.denials.remember(id, &r, &d, asked)
	}
	return d, nil
}

// serve tries to answer a leasable request from memory, and reports whether it did. If the request
// has several claims, serve may take units for only some of them. Then part.rest has the claims
// that the store must decide.
func (s *Stack) serve(r *stint.Request, d *stint.Decision, asked time.Time) (part *leasedPart, served bool) {
	if len(r.Claims) == 1 {
		return nil, s.leases.serve(r, d, asked)
	}
	part = s.leases.takePart(r, s.leases.at(asked))
	if part == nil || len(part.rest) > 0 {
		return part, false
	}
	*d = part.complete(&stint.Decision{Allowed: true}, nil)
	return part, true
}

// leasable reports whether a request, or a part of it, may be served from memory. Such a request is
// a plain take without an ID or a hold. It has no two claims of one subject and scope, because the
// store settles such claims together.
func leasable(r *stint.Request) bool {
	if r.Mode != stint.ModeTake || r.ID != "" || r.Terms().Fit || r.Terms().Lease != 0 || r.Hold != 0 {
		return false
	}
	if len(r.Claims) == 1 {
		return leasableClaim(&r.Claims[0])
	}
	if len(r.Claims) > stint.MaxClaims || contract.CountLimits(r.Claims) > stint.MaxTotal {
		return false // the store reports what is wrong
	}
	any := false
	for i := range r.Claims {
		c := &r.Claims[i]
		for k := range i {
			if o := &r.Claims[k]; o.Subject == c.Subject && o.Scope == c.Scope {
				return false
			}
		}
		any = any || leasableClaim(c)
	}
	return any
}

// leasableClaim reports whether a claim may be served from memory: all of its limits are leased,
// and its cost is one positive number.
func leasableClaim(c *stint.Claim) bool {
	if c.Cost <= 0 || c.Costs != nil {
		return false
	}
	for i := range c.Limits {
		if !c.Limits[i].Leased {
			return false
		}
	}
	return len(c.Limits) > 0
}

// question holds a request and the decision on it, on the heap, because both are large and would
// otherwise be copied from function to function.
type question struct {
	request  stint.Request
	decision stint.Decision
	asked    time.Time // use only its monotonic reading: its wall time may be wrong
	event    Decided
}

var questions = sync.Pool{New: func() any { return new(question) }}

// take has the store decide within the time budget, or decides without the store. If leases serve a
// part of the request, the store decides the rest.
func (s *Stack) take(ctx context.Context, r *stint.Request, part *leasedPart, asked time.Time) (
	d stint.Decision, err error) {
	if len(r.Claims) == 0 {
		return d, r.Validate()
	}
	q := questions.Get().(*question)
	q.request, q.decision, q.asked = *r, stint.Decision{}, asked
	if part != nil {
		q.request.Claims = part.rest
	}
	q.event.Source = SourceStore
	sent, err := s.ask(ctx, q)
	if err != nil {
		err = s.without(ctx, q, sent, err)
	}
	if part != nil {
		q.request, q.decision = *r, part.complete(&q.decision, err)
	}
	if s.config.Observer != nil && r.Terms().Lease == 0 { // renewals of leases are not observed
		q.event.Took = time.Since(asked)
		q.observe(ctx, s.config.Observer, err)
	}
	if err == nil {
		d = q.decision
	}
	q.event = Decided{}
	questions.Put(q)
	return d, err
}

// ask has the store decide within the time budget. If that fails after the request was sent, sent
// is the request's waiter, because the answer may still come.
func (s *Stack) ask(ctx context.Context, q *question) (sent *waiter, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err // no caller waits for an answer
	}
	if err := s.store.refused(opTake); err != nil {
		return nil, err
	}
	r, budget := &q.request, s.config.Failure.Budget
	if r.Failure != nil && r.Failure.Budget > 0 {
		budget = r.Failure.Budget
	}
	if r.Terms().Lease > 0 {
		budget = max(budget, r.Terms().Lease/2) // no caller waits, and a block that comes so late is still useful
	}
	// A caller's deadline that is earlier than the end of the budget is ignored, so the answer may
	// come a little late. Missing such a deadline would not mean that the store is slow. And
	// clients may be able to choose the deadline: they must not be able to bypass the store with a
	// short one.
	deadline := q.asked.Add(budget)
	if s.starting() { // a store that is not connected yet is not down
		deadline = later(deadline, s.start.Add(startTime))
	}
	if earlier(ctx, deadline) != deadline {
		ctx = context.WithoutCancel(ctx)
	}
	var owed []*owedCall // debts to charge before the request
	if r.Mode != stint.ModePeek && s.ledger.owing.Load() > 0 {
		owed = s.ledger.carry(r)
	}
	return s.batch.ask(ctx, q, owed, deadline)
}

// earlier returns deadline, or the context's deadline if that is earlier.
func earlier(ctx context.Context, deadline time.Time) time.Time {
	own, ok := ctx.Deadline()
	if !ok {
		return deadline
	}
	sooner := own.Before(deadline)
	if own == own.Round(0) { // own has no monotonic reading, and the wall time of deadline may be wrong
		sooner = time.Until(own) < time.Until(deadline)
	}
	if sooner {
		return own
	}
	return deadline
}

// listen receives announcements from the store, and calls drop for each. While it cannot receive
// any, an outdated denial is repeated for at most a second, and an outdated lease is used until it
// ends.
func (s *Stack) listen(announcer driver.Announcer) {
	warned := false
	for s.life.Err() == nil {
		s.heardSince.Store(max(s.ledger.now(), 1))
		err := announcer.Announcements(s.life, s.drop)
		s.heardSince.Store(0)
		s.listeners.End()
		if errkind.Of(err) == stint.KindAuth && !warned {
			warned = true
			s.config.Logger.Warn("stint: not permitted to subscribe to announcements of other processes; their refunds are noticed up to a second late",
				"cause", err)
		}
		sleep(s.life, jitter(time.Second))
	}
}

// Announcements implements [driver.Announcer] by passing on the announcements that the stack itself
// receives, so it needs no separate connection. It returns when the stack no longer receives them.
func (s *Stack) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if s.heardSince.Load() == 0 {
		return contract.ErrSilent
	}
	return s.listeners.Listen(ctx, f)
}

// drop handles an announcement about a subject, and passes it on to listeners. It forgets the
// subject's denials. If the subject was reset, banned or unbanned, it also forgets the subject's
// leases and ban.
func (s *Stack) drop(subject string, commanded bool) {
	s.listeners.Tell(subject, commanded)
	if s.denials != nil {
		s.denials.drop(subject)
	}
	if commanded && s.leases != nil {
		s.leases.drop(subject)
	}
	if commanded {
		s.ledger.unban(subject)
		s.ledger.commandedElsewhere(subject)
	}
}

// Breaker returns the state of the breaker, which stops calls to a store that fails.
func (s *Stack) Breaker() BreakerState {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.state
}

// Close waits until all callers are answered, gives back leased units, tries to charge the units
// that are still owed to the store, and ends all background work. It takes at most a few seconds if
// the store does not answer. It does not close the store. Later requests are decided without the
// store, as their failure mode specifies, but [stint.FailLocal] returns an error.
func (s *Stack) Close() error {
	s.batch.Close()
	if s.leases != nil {
		s.leases.close()
	}
	s.amends.Close()
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	s.sender.drain(ctx)
	s.mu.Lock()
	s.ended = true
	s.end()
	s.mu.Unlock()
	s.work.Wait()
	s.sender.close()
	s.ledger.close()
	return nil
}

// run calls the given function in a new goroutine, unless the stack has been closed.
func (s *Stack) run(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.work.Go(what)
	}
}

// jitter returns d, give or take a fifth, so that processes that lost the store at the same time do
// not call it again at the same time.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
