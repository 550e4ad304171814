package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

var (
	errCut     = errors.New("the connection was lost")
	errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	errLate    = errors.New("the request came too late")
)

const (
	// followed is for how long after its deadline the answer to a request is waited for.
	followed = time.Second
	// silence is after how long without a reply a connection is given up.
	silence = 3 * time.Second
	// endless is more calls than a process ever makes in a history, which are hundreds.
	endless = 100_000
)

// client is a process's way to the server. It honors what package redisstore does: a deadline is a
// not-after in the server's time, once that is known from a reply; a call returns when its context
// ends, whatever becomes of the script; one is sent again only if the server found it too late
// while there is time yet.
type client struct {
	server   *server
	seed     uint64
	process  int
	sabotage sabotage

	mu      sync.Mutex
	calls   int
	chance  [2]*rand.Rand // of callers' requests; and of all else, which the stack sends when it likes
	links   []link
	flights []*flight // those that are waited for
	dead    bool
	// released are charges whose places were given back from here.
	released map[uint64]bool
	starved  time.Time // until when nothing in the process goes on
	clock    serverClock
	heard    time.Time                 // when the first reply came
	far      time.Duration             // how much longer every message takes
	silent   bool                      // what follows is not noted: it grows with the history
	late     []string                  // what was charged after its caller's deadline
	old      map[string]stint.Decision // of a client that is confused

	unknown []units // what the process cannot account for
	unsure  []units // what it owes, of which it does not know whether it was charged; ran is when that was
}

var _ driver.BatchStore = (*client)(nil)

// link is how messages fare for some time.
type link struct {
	from, until               time.Time
	slow                      time.Duration // at most so much is added to either way
	loseRequests, loseReplies float64       // how many of them are lost
}

func newClient(s *server, seed uint64, process int, links []link) *client {
	return &client{
		server: s, seed: seed, process: process, links: links, released: map[uint64]bool{},
		old: map[string]stint.Decision{},
		chance: [2]*rand.Rand{rand.New(rand.NewPCG(seed, uint64(2*process)+1)),
			rand.New(rand.NewPCG(seed, uint64(2*process)+2))},
	}
}

// flight is a script on its way to the server and back.
type flight struct {
	run     func(*server)  // with the server's lock held
	charged func() []units // what it charged, once it has run; may be nil
	answer  chan error     // has room for one

	// 0 to 1: how long it takes there and back, whether it gets lost there, or back, or if it is
	// cut
	luck         [5]float64
	arrived, ran bool
	lost         bool // it never arrives
	left         bool // nobody waits for its reply
	unaccounted  bool // nobody has heard, or will, what it charged
	again        bool // it was sent again
}

// units are some that a script charged: when it ran, as of when they are charged, and until when
// its answer is wanted: zero is for as long as it takes. What is owed is sent again with its ID
// until there is an answer: it is charged once, unless a reset forgets the ID.
type units struct {
	subject         string
	n               int64
	ran, at, wanted time.Time
	again           bool
}

// exchange sends a script and waits for its reply, or for the context's end. Unless the error is
// nil it is not known whether it has run, or will.
func (c *client) exchange(ctx context.Context, op string, f *flight) error {
	c.count(op)
	c.pause()
	if err := ctx.Err(); err != nil {
		return failure(op, err)
	}
	f.answer = make(chan error, 1)
	c.send(f, op)
	var err error
	giveUp := time.NewTimer(silence)
	defer giveUp.Stop()
	select {
	case err = <-f.answer:
	case <-ctx.Done():
		err = ctx.Err()
	case <-giveUp.C:
		err = errCut
	}
	if c.pause() && ctx.Err() != nil && f.luck[4] < 0.5 {
		// A starved process finds that both have come, and takes either.
		if err == nil {
			err = ctx.Err()
		} else {
			select {
			case err = <-f.answer:
			default:
			}
		}
	}
	if err != nil {
		c.leave(f)
	}
	c.trace("%s %p ended: %v", op, f, err)
	return failure(op, err)
}

// count counts a call that is not a heartbeat, and ends a history that does not end by itself before
// it fills the memory.
func (c *client) count(op string) {
	if op == "present" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls++; c.calls > endless && !c.silent {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d: process %d makes calls without end, this one to %s at %v",
			c.seed, c.process, op, time.Since(epoch)))
	}
}

// leave notes that nobody waits for the reply of a flight any more.
func (c *client) leave(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.left = true; f.ran && !slices.Contains(c.flights, f) { // the reply is there
		c.unaccounted(f, time.Time{})
	}
}

// trace tells of a message, if anybody wants to know.
func (c *client) trace(format string, args ...any) {
	if *trace {
		fmt.Printf("%v process %d: %s\n", time.Since(epoch), c.process, fmt.Sprintf(format, args...))
	}
}

func failure(op string, err error) error {
	kind := stint.KindUnreachable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errLate):
		kind = stint.KindTimeout
	case errors.Is(err, context.Canceled):
		kind = stint.KindOther
	}
	return &stint.StoreError{Op: op, Kind: kind, Err: err}
}

// pause makes a starved process wait, and reports whether it did.
func (c *client) pause() bool {
	for waited := false; ; waited = true {
		c.mu.Lock()
		left := time.Until(c.starved)
		c.mu.Unlock()
		if left <= 0 {
			return waited
		}
		time.Sleep(left)
	}
}

// send starts a flight.
func (c *client) send(f *flight, op string) {
	away := c.server.isAway()
	c.mu.Lock()
	defer c.mu.Unlock()
	chance := c.chance[1]
	if op == "take" {
		chance = c.chance[0]
	}
	for i := range f.luck {
		f.luck[i] = chance.Float64()
	}
	there, lost := c.way(f.luck[0], f.luck[1], link.requests)
	c.trace("%s %p sent, lost %v", op, f, lost || c.dead)
	switch {
	case c.dead || lost && !away:
		f.lost = true
	case away:
		c.server.network.after(there, func() { f.answer <- errRefused })
	default:
		c.flights = append(c.flights, f)
		c.server.network.after(there, func() { c.arrive(f) })
	}
}

func (l link) requests() float64 { return l.loseRequests }
func (l link) replies() float64  { return l.loseReplies }

// way returns how long a message that leaves now takes, and whether it is lost. The lock is held.
func (c *client) way(long, lost float64, lose func(link) float64) (takes time.Duration, isLost bool) {
	now, slow := time.Now(), 200*time.Microsecond
	for len(c.links) > 0 && !now.Before(c.links[0].until) {
		c.links = c.links[1:]
	}
	for _, l := range c.links {
		if now.Before(l.from) {
			break
		}
		if !now.Before(l.until) {
			continue
		}
		slow = max(slow, l.slow)
		isLost = isLost || lost < lose(l)
	}
	return 50*time.Microsecond + c.far + time.Duration(long*float64(slow)), isLost
}

// arrive hands a flight to the server.
func (c *client) arrive(f *flight) {
	c.mu.Lock()
	f.arrived = true
	lost := f.lost
	c.mu.Unlock()
	if !lost {
		c.server.arrive(message{run: f.run, ran: func() { c.ran(f) }, refuse: func() { c.land(f, 0, errCut) }})
	}
}

// ran sends the reply of a flight.
func (c *client) ran(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.ran = true
	back, lost := c.way(f.luck[2], f.luck[3], link.replies)
	if c.dead || lost || !slices.Contains(c.flights, f) {
		c.unaccounted(f, time.Time{})
		c.flights = without(c.flights, f)
		if c.sabotage == runsTwice && !c.dead && !f.again {
			f.again = true
			c.server.network.after(10*time.Millisecond, func() { c.arrive(f) })
		}
		return
	}
	c.server.network.after(back, func() { c.land(f, back, nil) })
}

// land answers a flight whose reply was under way for so long, unless that was lost with its
// connection.
func (c *client) land(f *flight, back time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.flights, f) {
		return
	}
	c.flights = without(c.flights, f)
	if err == nil {
		at := time.Now()
		if at.Before(c.starved) {
			at = c.starved
		}
		c.unaccounted(f, at)
		c.clock.learn(back)
		if c.heard.IsZero() {
			c.heard = time.Now()
		}
	}
	f.answer <- err
}

func without(fs []*flight, f *flight) []*flight {
	return slices.DeleteFunc(fs, func(g *flight) bool { return g == f })
}

// unaccounted notes what a flight charged and the process does not hear of in time; at is when it
// hears of it, zero if never. The lock is held.
func (c *client) unaccounted(f *flight, at time.Time) {
	if f.charged == nil || f.unaccounted || c.silent {
		return
	}
	for _, u := range f.charged() {
		if at.IsZero() || f.left || !u.wanted.IsZero() && at.After(u.wanted.Add(followed*9/10)) {
			c.unknown = append(c.unknown, u)
			f.unaccounted = true
		}
	}
}

// cut ends the connection: who waits for a reply is told at once. What has not reached the server
// may arrive all the same.
func (c *client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.flights {
		c.orphan(f)
		f.answer <- errCut
	}
	c.flights = nil
}

// die ends the process: nothing leaves it and nothing reaches it any more.
func (c *client) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for _, f := range c.flights {
		c.orphan(f)
	}
	c.flights = nil
}

// orphan leaves a flight without anybody who waits for it. The lock is held.
func (c *client) orphan(f *flight) {
	if f.ran {
		c.unaccounted(f, time.Time{})
	}
	f.lost = !f.arrived && f.luck[4] < 0.5
}

// serverClock knows how long before its deadline a request has to be decided so that the reply
// arrives in time: the shortest way back of the last two seconds. See redisstore.
type serverClock struct {
	known     bool
	now, last time.Duration // the shortest of this second, and of the one before
	second    int64
}

func (c *serverClock) learn(back time.Duration) {
	if second := time.Now().Unix(); !c.known || second != c.second {
		if c.last = c.now; !c.known || second != c.second+1 {
			c.last = back
		}
		c.known, c.second, c.now = true, second, back
	}
	c.now = min(c.now, back)
}

// notAfter is a deadline in the server's time; zero is none, or not known.
func (c *client) notAfter(deadline time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.clock.known || deadline.IsZero() {
		return time.Time{}
	}
	return deadline.Add(-min(c.clock.now, c.clock.last))
}

// Take implements [stint.Store].
func (c *client) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	call := driver.Call{Request: r}
	call.Deadline, _ = ctx.Deadline()
	c.TakeBatch(ctx, []*driver.Call{&call})
	return call.Decision, call.Err
}

// TakeBatch implements [driver.BatchStore].
func (c *client) TakeBatch(ctx context.Context, batch []*driver.Call) {
	late := c.take(ctx, batch)
	if len(late) > 0 && ctx.Err() == nil {
		c.take(ctx, late)
	}
}

// take sends calls in one script. It returns those that came too late for the server, but not for
// their callers.
func (c *client) take(ctx context.Context, batch []*driver.Call) (late []*driver.Call) {
	// The script has copies: it may run when the caller has long gone.
	var ran time.Time
	known := c.knowsClock()
	calls, wanted := make([]driver.Call, len(batch)), make([]time.Time, len(batch))
	for i, b := range batch {
		calls[i] = driver.Call{Request: b.Request, Deadline: c.notAfter(b.Deadline)}
		calls[i].Request.Claims = slices.Clone(b.Request.Claims)
		if c.sabotage == dropsNotAfter {
			calls[i].Deadline = time.Time{}
		}
		wanted[i] = b.Deadline
	}
	f := &flight{
		run: func(s *server) {
			ran = time.Now()
			for i := range calls {
				if call := &calls[i]; !call.Deadline.IsZero() && time.Now().After(call.Deadline) {
					call.Err = errLate
				} else {
					call.Decision, call.Err = c.sabotage.take(s.engine, call.Request)
					if known {
						c.overdue(call, wanted[i])
					}
				}
				if !*trace {
					continue
				}
				d, r := &calls[i].Decision, &calls[i].Request
				c.trace("ran mode %d %d of %s, %d claims, id %q: allowed %v repeat %v err %v used %v charge %d",
					r.Mode, r.Claims[0].Cost, r.Claims[0].Subject, len(r.Claims), r.ID,
					d.Allowed, d.Repeat, calls[i].Err, d.Usages(), d.Charge.Data().ID,
				)
			}
		},
		charged: func() (all []units) {
			for i := range calls {
				d, r := &calls[i].Decision, &calls[i].Request
				if calls[i].Err != nil || d.Charge.Data().ID == 0 {
					continue
				}
				at, again := time.UnixMicro(d.Charge.Data().At), r.Mode == driver.ModeForce && r.ID != ""
				for k := range d.Charge.Claims() {
					claim := &d.Charge.Claims()[k]
					all = append(all, units{claim.Subject, claim.Cost, ran, at, wanted[i], again})
				}
			}
			return all
		},
	}
	err := c.exchange(ctx, "take", f)
	for i, b := range batch {
		switch {
		case err != nil:
			b.Decision, b.Err = stint.Decision{}, err
		case calls[i].Err == errLate:
			b.Decision, b.Err = stint.Decision{}, failure("take", errLate)
			if time.Until(b.Deadline) > 0 {
				late = append(late, b)
			}
		default:
			b.Decision, b.Err = calls[i].Decision, calls[i].Err
		}
		if b.Err != nil && b.Request.Mode == driver.ModeForce && !errors.Is(err, errRefused) && !c.silent {
			c.mu.Lock()
			for k := range b.Request.Claims {
				c.unsure = append(c.unsure, units{subject: b.Request.Claims[k].Subject, ran: time.Now()})
			}
			c.mu.Unlock()
		}
		c.sabotage.answered(b)
	}
	c.mu.Lock()
	c.sabotage.confused(batch, c.old)
	c.mu.Unlock()
	return late
}

// knowsClock reports whether deadlines can be told in the server's time.
func (c *client) knowsClock() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.known
}

// overdue notes a request that was charged after its deadline.
func (c *client) overdue(call *driver.Call, wanted time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := time.Since(wanted); c.silent && !wanted.IsZero() && by > 0 &&
		call.Decision.Charge.Data().ID != 0 {
		c.late = append(c.late, fmt.Sprintf("charged %v after the deadline of its caller", by))
	}
}

// takeLate returns what overdue has noted since.
func (c *client) takeLate() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late
	c.late = nil
	return late
}

// Amend implements [stint.Store].
func (c *client) Amend(ctx context.Context, charge stint.Charge, a stint.Amendment) (stint.Amended, error) {
	call := driver.AmendCall{Charge: charge, Amendment: a}
	call.Deadline, _ = ctx.Deadline()
	c.amend(ctx, []*driver.AmendCall{&call})
	return call.Amended, call.Err
}

// amend sends amendments in one script.
func (c *client) amend(ctx context.Context, batch []*driver.AmendCall) {
	late, done := make([]time.Time, len(batch)), make([]driver.AmendCall, len(batch))
	for i, b := range batch {
		done[i] = *b
		if done[i].Err = b.Amendment.Validate(&b.Charge); done[i].Err == nil {
			late[i] = c.heartbeat(b.Deadline, &done[i].Charge, &done[i].Amendment)
		}
	}
	err := c.exchange(ctx, "amend", &flight{run: func(s *server) {
		for i := range done {
			d := &done[i]
			switch {
			case d.Err != nil:
				continue
			case !late[i].IsZero() && time.Now().After(late[i]):
				d.Err = failure("amend", errLate)
				continue
			}
			d.Amended, d.Err = c.sabotage.amend(s.engine, d.Charge, d.Amendment)
			c.trace("ran amend %d to %d of %s charge %d: %v %v", d.Amendment.Kind, d.Amendment.Cost,
				d.Charge.Claims()[0].Subject, d.Charge.Data().ID, d.Amended, d.Err)
			if d.Amended.Changed && d.Amendment.Kind == stint.AmendSettle && d.Amendment.Cost < d.Charge.Claims()[0].Cost {
				s.announce(false, subjectsOf(&d.Charge)...)
			}
		}
	}})
	for i, b := range batch {
		if b.Err = err; err == nil {
			b.Amended, b.Err = done[i].Amended, done[i].Err
		}
	}
}

// batching is a client of a fleet: it amends many charges in one call, as package redisstore does.
type batching struct{ *client }

// AmendBatch implements [driver.BatchAmender].
func (b batching) AmendBatch(ctx context.Context, batch []*driver.AmendCall) { b.amend(ctx, batch) }

// heartbeat sees to it that a heartbeat takes no place back when its caller has gone, or may have
// released it. It returns the not-after of an amendment, zero if it has none.
func (c *client) heartbeat(own time.Time, charge *stint.Charge, a *stint.Amendment) (late time.Time) {
	switch a.Kind {
	case stint.AmendRelease:
		c.mu.Lock()
		c.released[charge.Data().ID] = true
		c.mu.Unlock()
	case stint.AmendExtend:
		shortest := stint.MaxWindow
		for k := range charge.Claims() {
			for _, l := range charge.Claims()[k].Limits {
				if l.Algorithm == stint.AlgorithmConcurrency {
					shortest = min(shortest, l.Window)
				}
			}
		}
		deadline := time.Now().Add(shortest)
		if !own.IsZero() && own.Before(deadline) {
			deadline = own
		}
		late = c.notAfter(deadline)
		c.mu.Lock()
		a.KnownOnly = a.KnownOnly || late.IsZero() || c.released[charge.Data().ID]
		c.mu.Unlock()
	}
	return late
}

// Command implements [stint.Store].
func (c *client) Command(ctx context.Context, cmd stint.Command) error {
	if err := cmd.Validate(); err != nil {
		return err
	}
	var failed error
	err := c.exchange(ctx, "command", &flight{run: func(s *server) {
		failed = s.engine.Command(context.Background(), cmd)
		c.trace("ran command %d of %s, %d: %v", cmd.Kind, cmd.Subject, cmd.Units, failed)
		s.announce(true, cmd.Subject)
	}})
	return errors.Join(err, failed)
}

// Ping is for package resilience.
func (c *client) Ping(ctx context.Context) error {
	return c.exchange(ctx, "ping", &flight{run: func(*server) {}})
}

// Present is for package resilience.
func (c *client) Present(ctx context.Context, p driver.Presence) (driver.Presence, error) {
	var next driver.Presence
	err := c.exchange(ctx, "present", &flight{run: func(s *server) {
		next = driver.Presence{ID: p.ID, Processes: s.presence(p.ID), Memory: strconv.Itoa(s.memory)}
	}})
	if err != nil { // the answer may still come
		return driver.Presence{}, err
	}
	return next, nil
}

// Announcements is for package resilience.
func (c *client) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	l := &listener{client: c, f: f, ended: make(chan struct{})}
	if err := c.exchange(ctx, "listen",
		&flight{run: func(s *server) { s.listeners = append(s.listeners, l) }}); err != nil {
		return err
	}
	defer c.server.leave(l)
	select {
	case <-l.ended:
		return failure("listen", errCut)
	case <-ctx.Done():
		return failure("listen", ctx.Err())
	}
}

// listener is a process that hears of subjects that got room back.
type listener struct {
	client *client
	f      func(subject string, commanded bool)
	ended  chan struct{} // closed when its connection is
	left   bool          // it no longer listens
}

// tell sends an announcement. One that is lost is sent again, as by TCP.
func (l *listener) tell(subject string, commanded bool) {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	chance, network := l.client.chance[1], l.client.server.network
	switch back, lost := l.client.way(chance.Float64(), chance.Float64(), link.replies); {
	case l.client.dead:
	case lost:
		network.after(200*time.Millisecond, func() { l.tell(subject, commanded) })
	default:
		network.after(back, func() { l.hear(subject, commanded) })
	}
}

// hear hands an announcement to the process, as soon as that is not starved.
func (l *listener) hear(subject string, commanded bool) {
	l.client.mu.Lock()
	starved, left := time.Until(l.client.starved), l.left
	l.client.mu.Unlock()
	switch {
	case left:
	case starved > 0:
		l.client.server.network.after(starved, func() { l.hear(subject, commanded) })
	default:
		l.f(subject, commanded)
	}
}

// starve lets nothing in the process go on until then.
func (c *client) starve(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.starved) {
		c.starved = until
	}
}
