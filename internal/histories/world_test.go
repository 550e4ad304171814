package histories

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/resilience"
)

// world is where a plan happens.
type world struct {
	plan   *plan
	start  time.Time
	server *server
	slots  []*instance // nil if nobody is there
	all    []*instance
	work   sync.WaitGroup

	mu      sync.Mutex
	history *history
	watch   *watch // of a fleet
}

// instance is a process.
type instance struct {
	number  int
	client  *client
	stack   *resilience.Stack
	limiter *stint.Limiter
	closing chan struct{} // those who hold something give it back
	dead    chan struct{}
}

// ledger counts all there is, and denies no one.
var ledger = stint.Limit{Max: 1_000_000, Window: 24 * time.Hour, Name: "ledger"}

// happen lets a plan happen, in a bubble, and returns its history.
func (p *plan) happen() *history {
	w := p.world()
	for slot := range w.slots {
		w.bear(slot)
	}
	w.run()
	w.work.Wait()
	time.Sleep(p.rest)
	w.history.length = w.now()
	w.read()
	w.end()
	return w.history
}

func (p *plan) world() *world {
	return &world{
		plan: p, start: time.Now(), server: newServer(p.fleet), slots: make([]*instance, p.instances),
		history: &history{subjects: p.subjects, budget: contract.DefaultBudget},
	}
}

// end ends all processes and the server.
func (w *world) end() {
	for _, i := range slices.Clone(w.all) {
		w.work.Go(func() { w.close(i) })
	}
	w.work.Wait()
	w.server.close()
}

// now is the time since the start, in whole microseconds, as stores count.
func (w *world) now() time.Duration { return time.Since(w.start).Truncate(time.Microsecond) }

// bear starts a process.
func (w *world) bear(slot int) {
	number := len(w.history.processes)
	i := &instance{
		number: number, client: newClient(w.server, w.plan.seed, number, w.plan.links(slot, w.start)),
		closing: make(chan struct{}), dead: make(chan struct{}),
	}
	i.client.sabotage = w.plan.sabotage
	config := resilience.Config{
		Instances: w.plan.instances, Denials: 64, Leases: 64, Observer: starving{client: i.client},
		Logger: slog.New(slog.DiscardHandler),
	}
	if w.plan.fleet != nil {
		i.client.far, i.client.silent = far[slot%len(far)], true
		config.Denials, config.Leases, config.Failure.Budget = 4096, 1024, 300*time.Millisecond
	}
	if w.plan.sabotage == dawdles {
		config.Failure.Budget = time.Second
	}
	var store driver.BatchStore = i.client
	if w.plan.fleet != nil {
		store = batching{i.client}
	}
	var err error
	i.stack, err = resilience.New(store, config)
	if err != nil {
		panic(err)
	}
	i.limiter, err = stint.New(i.stack, stint.PerSecond(1))
	if err != nil {
		panic(err)
	}
	w.slots[slot] = i
	p := process{born: w.now(), died: never, heard: never, instances: w.plan.instances}
	if w.plan.fleet == nil {
		w.plan.afflict(slot, &p)
	}
	w.mu.Lock()
	w.all = append(w.all, i)
	w.history.processes = append(w.history.processes, p)
	w.mu.Unlock()
}

// starving lets a goroutine of a starved process wait where it tells of something: the others go on
// meanwhile, as they would if it had lost its CPU there.
type starving struct{ client *client }

func (s starving) Observe(_ context.Context, event stint.Event) {
	if _, ok := event.(*resilience.Decided); ok {
		s.client.pause()
	}
}

// run lets everything happen at its time.
func (w *world) run() {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	on := func(at time.Duration, do func()) { events = append(events, event{at, do}) }
	for _, f := range w.plan.faults {
		on(f.from, func() { w.begin(f) })
		on(f.to, func() { w.finish(f) })
	}
	for _, s := range w.plan.steps {
		on(s.at, func() { w.ask(s) })
	}
	for _, s := range w.plan.resets {
		on(s.at, func() { w.reset(s) })
	}
	for _, c := range w.plan.clock {
		on(c.at, func() { w.set(c) })
		w.history.skew += c.by.Abs()
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	until := func(at time.Duration) {
		for ; len(events) > 0 && events[0].at <= at; events = events[1:] {
			time.Sleep(events[0].at - time.Since(w.start))
			events[0].do()
		}
	}
	if w.plan.fleet != nil {
		for n, s := range w.plan.fleet.shots() {
			until(s.at)
			time.Sleep(s.at - time.Since(w.start))
			if w.shoot(n, s); w.wrong() {
				return
			}
		}
	}
	until(never)
}

// set sets the server's clock.
func (w *world) set(c clockStep) {
	w.server.ahead.Add(int64(c.by))
	if w.watch != nil {
		w.mu.Lock()
		clear(w.watch.admitted.tracks) // fixed windows begin anew
		w.mu.Unlock()
	}
}

func (w *world) begin(f fault) {
	switch f.kind {
	case stopServer:
		w.server.stop()
	case endServer:
		w.server.end(f.loses)
		if f.loses {
			w.mu.Lock()
			w.history.losses = append(w.history.losses, span{f.from, f.to})
			w.mu.Unlock()
		}
		w.mu.Lock()
		all := slices.Clone(w.all)
		w.mu.Unlock()
		for _, i := range all {
			i.client.cut()
		}
	case cutLink:
		if i := w.slots[f.slot]; i != nil {
			i.client.cut()
		}
	case starve:
		if i := w.slots[f.slot]; i != nil {
			i.client.starve(w.start.Add(f.to))
		}
	case die:
		i := w.slots[f.slot]
		if i == nil {
			return
		}
		w.slots[f.slot] = nil
		if f.loses {
			w.kill(i)
			if w.watch != nil {
				w.work.Go(func() { w.bury(i) })
			}
		} else {
			w.work.Go(func() { w.close(i) })
		}
	}
}

func (w *world) finish(f fault) {
	switch f.kind {
	case stopServer:
		w.server.goOn()
	case endServer:
		w.server.begin()
	case die:
		if !f.ends && w.slots[f.slot] == nil {
			w.bear(f.slot)
		}
	}
}

// kill ends a process without its knowing.
func (w *world) kill(i *instance) {
	i.client.die()
	w.mu.Lock()
	w.history.processes[i.number].died = w.now()
	w.mu.Unlock()
	close(i.dead)
}

// close ends a process.
func (w *world) close(i *instance) {
	if i.isDead() {
		_ = i.stack.Close() // only its goroutines are left
		return
	}
	close(i.closing)
	time.Sleep(100 * time.Millisecond)
	_ = i.stack.Close()
	w.kill(i)
	if w.watch != nil {
		w.bury(i)
	}
}

// bury ends what is left of a dead process of a fleet, and forgets it: there are many.
func (w *world) bury(i *instance) {
	_ = i.stack.Close()
	i.client.mu.Lock()
	calls := i.client.calls
	i.client.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.result.Calls += calls
	w.all = slices.DeleteFunc(w.all, func(j *instance) bool { return i == j })
}

// isDead reports whether a process is dead.
func (i *instance) isDead() bool {
	select {
	case <-i.dead:
		return true
	default:
		return false
	}
}

// request makes a step a request.
func (w *world) request(s step) stint.Request {
	claims := make([]stint.Claim, len(s.claims))
	for k, c := range s.claims {
		sub := &w.plan.subjects[c.subject]
		claims[k] = stint.Claim{Subject: sub.name, Limits: slices.Clone(sub.limits), Cost: c.cost}
		if sub.ledger {
			claims[k].Limits = append(claims[k].Limits, ledger)
		}
	}
	first := &w.plan.subjects[s.claims[0].subject]
	r := stint.Request{Claims: claims, ID: s.id, Bans: first.bans, Failure: &stint.FailurePolicy{Mode: first.mode}}
	if s.id != "" {
		r.IDLife = time.Minute
	}
	if first.hold > 0 {
		r.Hold, r.IDLife = first.hold, 0
	}
	if w.plan.sabotage == hurries && s.kind == take && s.deadline > 0 {
		r.Failure.Budget = s.deadline
	}
	return r
}

// ask lets a caller do its step.
func (w *world) ask(s step) {
	i := w.slots[s.slot]
	if i == nil {
		return
	}
	w.work.Go(func() {
		i.client.pause()
		o := &op{kind: s.kind, process: i.number, claims: s.claims, id: s.id, deadline: s.deadline,
			mode: w.plan.subjects[s.claims[0].subject].mode, call: w.now(), ret: never, gone: never, freed: never}
		w.mu.Lock()
		w.history.ops = append(w.history.ops, o)
		w.mu.Unlock()
		ctx, cancel := context.Background(), func() {}
		if s.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, s.deadline)
		}
		if s.kind == wait {
			o.ahead = s.deadline
		}
		if s.cancel > 0 {
			o.deadline = s.cancel
			time.AfterFunc(s.cancel, cancel)
		}
		ask := i.limiter.Take
		if s.kind == wait {
			ask = i.limiter.WaitFor
		}
		d, err := ask(ctx, w.request(s))
		cancel()
		o.ret = w.now()
		w.tell(i, o, d, err)
		if o.told != allowed {
			return
		}
		switch {
		case s.kind == hold:
			w.hold(i, o, d, s)
		case s.kind == stream:
			w.stream(i, o, d, s)
		case s.keep > 0:
			w.settle(i, o, d, s)
		}
	})
}

// tell notes what a caller was told.
func (w *world) tell(i *instance, o *op, d stint.Decision, err error) {
	switch {
	case i.isDead():
		return
	case err == nil && d.Allowed:
		o.told = allowed
	case err == nil, errors.As(err, new(*stint.DeniedError)):
		o.told = denied
	default:
		o.told = failed
	}
	o.degraded, o.repeat, o.banned, o.banLeft = d.Degraded, d.Repeat, d.Banned, d.BanLeft
	o.flat = d.Unavailable || d.Degraded && d.Allowed && len(d.Usages()) == 0
}

// hold keeps a place for some time, or until it is lost: then its holder goes at once, or does not
// care.
func (w *world) hold(i *instance, o *op, d stint.Decision, s step) {
	lim, err := stint.New(i.stack)
	if err != nil {
		panic(err)
	}
	if d.Charge.IsZero() { // it holds no place
		o.gone = o.ret
		return
	}
	held, release := lim.Hold(context.Background(), d)
	timer := time.NewTimer(s.keep)
	defer timer.Stop()
	over := func(lost <-chan struct{}) {
		select {
		case <-timer.C:
		case <-i.closing:
		case <-i.dead:
		case <-lost:
		}
	}
	over(held.Done())
	o.gone = w.now()
	if held.Err() != nil && s.cost > 0 {
		over(nil)
	}
	o.giving.from = w.now()
	err = release()
	if o.giving.to = w.now(); (err == nil || err == stint.ErrPlaceLost) && !i.isDead() {
		o.freed = o.giving.to
	}
}

// settle settles a charge after some time.
func (w *world) settle(i *instance, o *op, d stint.Decision, s step) {
	time.Sleep(s.keep)
	if i.isDead() {
		return
	}
	i.client.pause()
	a := amend{call: w.now(), cost: s.cost}
	applied, err := i.limiter.Settle(context.Background(), d, s.cost)
	a.ret, a.applied, a.failed = w.now(), applied.Changed, err != nil
	if w.plan.sabotage == hidesRefunds && d.Degraded {
		a.applied = false
	}
	if i.isDead() {
		a.applied, a.failed = false, true
	}
	w.mu.Lock()
	o.amends = append(o.amends, a)
	w.mu.Unlock()
}

// reset lets somebody reset a subject. Its ledger stays.
func (w *world) reset(s step) {
	i := w.slots[s.slot]
	if i == nil {
		return
	}
	w.work.Go(func() {
		sub := &w.plan.subjects[s.claims[0].subject]
		w.mu.Lock()
		n := len(w.history.resets)
		w.history.resets = append(w.history.resets, reset{span{w.now(), never}, s.claims[0].subject})
		w.mu.Unlock()
		err := i.stack.Command(context.Background(),
			stint.Command{Kind: stint.CommandReset, Subject: sub.name, Limits: sub.limits})
		w.mu.Lock()
		if w.history.resets[n].to = w.now(); err != nil { // it may yet happen
			w.history.resets[n].to = w.history.processes[i.number].settled(w.now())
		}
		w.mu.Unlock()
	})
}

// read asks the server what it counts.
func (w *world) read() {
	for _, i := range w.all {
		i.client.mu.Lock()
		if at := i.client.heard; !at.IsZero() {
			w.history.processes[i.number].heard = at.Sub(w.start)
		}
		i.client.mu.Unlock()
	}
	for s, sub := range w.plan.subjects {
		peek := func(l stint.Limit) int64 {
			d, err := w.server.engine.Take(context.Background(), stint.Request{
				Claims: []stint.Claim{{Subject: sub.name, Limits: []stint.Limit{l}}}, Mode: stint.ModePeek})
			if err != nil {
				panic(err)
			}
			return d.Usages()[0].Used
		}
		of := func(r reset) bool { return r.subject == s }
		r := reading{subject: s, ledger: peek(ledger)}
		if sub.places() {
			r.places = peek(sub.limits[0])
		}
		if sub.hold > 0 {
			r.held = w.held(&sub)
		}
		for _, i := range w.all {
			i.client.mu.Lock() // what it owes may be under way
			for _, u := range i.client.unsure {
				if p := &w.history.processes[i.number]; u.subject == sub.name {
					p.unsure = append(p.unsure, doubt{s, u.ran.Sub(w.start)})
				}
			}
			for _, u := range i.client.unknown {
				if u.subject == sub.name && (!u.again || slices.ContainsFunc(w.history.resets, of)) {
					w.history.unknowns = append(w.history.unknowns,
						unknown{span{u.ran.Sub(w.start), u.at.Sub(w.start)}, s, u.n})
				}
			}
			i.client.mu.Unlock()
		}
		w.history.readings = append(w.history.readings, r)
	}
}

// held is what the server holds of a subject.
func (w *world) held(sub *subject) (n int64) {
	seen, err := w.server.engine.Inspect(context.Background(),
		stint.Claim{Subject: sub.name, Limits: append(slices.Clone(sub.limits), ledger)})
	if err != nil {
		panic(err)
	}
	for _, window := range seen.Windows {
		n += window.Held
	}
	return n
}
