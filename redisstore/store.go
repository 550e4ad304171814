package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/settled"
)

// Store is a [stint.BatchStore] over Redis. It is safe for concurrent use.
type Store struct {
	conn       connection
	prefix     string
	nameKeys   nameKeys
	guest      bool // see WithExistingNames
	names      atomic.Pointer[names]
	watch      watcher
	cluster    bool
	calls      atomic.Uint64
	server     *serverClock
	sets       sets
	settled    settled.Set
	released   settled.Set  // the charges whose places were released here
	clock      func() int64 // 0 but in tests: the server's
	noReadOnly atomic.Bool  // see look
	ceilings   ceilings     // of a Cluster, and so are backs
	backs      *giveBacks
}

var _ stint.BatchStore = (*Store)(nil)

func newStore(client rueidis.Client, o options) *Store {
	s := &Store{
		prefix:   o.prefix,
		nameKeys: o.nameKeys,
		guest:    o.guest,
		cluster:  client.Mode() == rueidis.ClientModeCluster,
		server:   newServerClock(),
		clock:    func() int64 { return 0 },
	}
	s.backs = newGiveBacks(s, o.logger)
	s.conn.client.Store(&client)
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	s.calls.Store(binary.BigEndian.Uint64(seed[:]))
	return s
}

// Close gives back what is still to be, on a Cluster and for a second at most, and closes the
// connections, unless the client is the caller's.
func (s *Store) Close() error {
	s.watch.close()
	s.backs.close()
	s.conn.close()
	return nil
}

// nextCall returns an id that no other call has, in any process: replies are held
// against it, and charges are named by it.
func (s *Store) nextCall() uint64 { return s.nextCalls(1) }

// nextCalls returns the first of n such ids in a row.
func (s *Store) nextCalls(n int) uint64 {
	for {
		last := s.calls.Add(uint64(n))
		if first := last - uint64(n) + 1; first <= last && first != 0 {
			return first
		}
	}
}

// Take decides a request. See [stint.Store]. It charges nothing after the context's
// deadline, as far as the server's clock is known.
func (s *Store) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	var d stint.Decision
	var err error
	if s.cluster && len(r.And) > 0 {
		d, err = s.takeSplit(ctx, &r)
	} else {
		d, err = s.takeOne(ctx, &r, s.nextCall())
	}
	if err == nil {
		s.names.Load().note(&r, &d)
	}
	return d, s.wrap("take", err)
}

func (s *Store) takeOne(ctx context.Context, r *stint.Request, call uint64) (stint.Decision, error) {
	deadline, _ := ctx.Deadline()
	return s.takeBy(ctx, r, call, deadline)
}

// takeBy is takeOne with a not-after of its own.
func (s *Store) takeBy(ctx context.Context, r *stint.Request, call uint64, deadline time.Time) (stint.Decision, error) {
	c := stint.Call{Request: *r, Deadline: deadline}
	runs := []run{{calls: []*stint.Call{&c}, deadline: deadline}}
	if late := s.send(ctx, runs, call); len(late) > 0 && ctx.Err() == nil {
		// There is time yet: the server's clock was set. It has told its new time.
		s.send(ctx, runs, call)
	}
	return c.Decision, c.Err
}

// notAfter is a caller's deadline in the server's time.
func (s *Store) notAfter(deadline time.Time) int64 {
	if s.clock() != 0 {
		return 0
	}
	return s.server.notAfter(deadline)
}

// heard takes the server's time from a reply.
func (s *Store) heard(now int64, late bool) {
	switch {
	case s.clock() != 0:
	case late:
		s.server.relearn(now)
	default:
		s.server.learn(now)
	}
}

// wrap names what failed, and leaves a server that has become a replica and a connection
// that answers with the replies of other calls: it would go on to.
func (s *Store) wrap(op string, err error) error {
	err = wrap(op, err)
	if err != nil {
		switch stint.KindOf(err) {
		case stint.KindReadOnly, stint.KindReply:
			s.conn.renew()
		}
	}
	return err
}

// Amend changes an earlier charge. See [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return false, err
	}
	if c.Origin() != stint.FromStore {
		return false, nil
	}
	if a.Kind == stint.Settle {
		// Claims that were settled before are left out, as if they had cost nothing.
		if c = s.unsettled(c); c.Claim.Cost == 0 && !slices.ContainsFunc(c.And(), func(claim stint.Claim) bool { return claim.Cost > 0 }) {
			return false, nil
		}
	}
	if a.Kind == stint.Release {
		for i := range 1 + len(c.And()) { // before anything is sent: no later heartbeat takes it back
			s.released.Add(c.ID, c.ClaimAt(i))
		}
	}
	var changed uint16
	var err error
	if s.cluster && len(c.And()) > 0 {
		changed, err = s.amendSplit(ctx, &c, a)
	} else {
		changed, err = s.amendOne(ctx, &c, a)
	}
	if a.Kind == stint.Settle {
		for i := range 1 + len(c.And()) {
			if changed>>i&1 != 0 {
				s.settled.Add(c.ID, c.ClaimAt(i))
			}
		}
	}
	if a.Kind == stint.Extend {
		places := placesOf(&c)
		return places != 0 && changed == places, s.wrap("amend", err)
	}
	return changed != 0, s.wrap("amend", err)
}

// placesOf has a bit for each claim that took a place.
func placesOf(c *stint.Charge) (claims uint16) {
	for i := range 1 + len(c.And()) {
		if claim := c.ClaimAt(i); claim.Cost > 0 && slices.ContainsFunc(claim.Limits, isPlace) {
			claims |= 1 << i
		}
	}
	return claims
}

func isPlace(l stint.Limit) bool { return l.Algorithm == stint.Concurrency }

// unsettled returns a charge in which claims that this process has settled cost nothing.
func (s *Store) unsettled(c stint.Charge) stint.Charge {
	for i := range 1 + len(c.And()) {
		if !s.settled.Has(c.ID, c.ClaimAt(i)) {
			continue
		}
		if i == 0 {
			c.Claim.Cost = 0
			continue
		}
		rest := *c.Rest
		rest.And = slices.Clone(rest.And)
		rest.And[i-1].Cost, c.Rest = 0, &rest
	}
	return c
}

// amendOne amends a charge in one call. It returns a bit for each claim to which that
// applied, the lowest for the first.
func (s *Store) amendOne(ctx context.Context, c *stint.Charge, a stint.Amendment) (uint16, error) {
	k, err := s.newKeys()
	if err != nil {
		return 0, err
	}
	parts := partsOf(nil, &c.Claim, c.And())
	s.sets.fill(parts)
	for i := range 1 + len(c.And()) {
		claim := c.ClaimAt(i)
		k.inScope(claim.Subject, claim.Scope, "settled")
		for j := range parts {
			if parts[j].claim == i {
				k.ofPart(&parts[j])
			}
		}
	}
	if c.RequestID() != "" {
		k.inScope(c.Claim.Subject, c.Claim.Scope, "ids")
	}
	changed, err := s.sendAmend(ctx, &k, c, a, parts, s.retakes(c, a))
	if moving(err) {
		return s.amendApart(ctx, c, a, err)
	}
	return changed, err
}

// retakes has a bit for each claim that a heartbeat may take places back for: not those that this process has
// given up.
func (s *Store) retakes(c *stint.Charge, a stint.Amendment) (claims uint16) {
	if a.Kind != stint.Extend || a.KnownOnly {
		return 0
	}
	for i := range 1 + len(c.And()) {
		if claim := c.ClaimAt(i); !s.settled.Has(c.ID, claim) && !s.released.Has(c.ID, claim) {
			claims |= 1 << i
		}
	}
	return claims
}

// sendAmend makes one call of amend.lua. A heartbeat says until when its caller waits: later it would take a place for
// somebody who may have released it.
func (s *Store) sendAmend(ctx context.Context, k *keys, c *stint.Charge, a stint.Amendment, parts []part, retake uint16) (uint16, error) {
	keys, id := k.strings(), k.names.id(c.RequestID())
	for again := false; ; again = true {
		notAfter := int64(0)
		if a.Kind == stint.Extend {
			if notAfter = s.notAfter(heartbeatDeadline(ctx, c)); notAfter == 0 && s.clock() == 0 {
				retake = 0 // the server's clock is not known
			}
		}
		call := s.nextCall()
		reply, err := amendScript.run(ctx, s.conn.get(), keys, amendArgs(c, a, parts, id, call, s.clock(), notAfter, retake))
		if err != nil {
			return 0, err
		}
		now, changed, err := decodeAmend(reply, call)
		if err != nil && err != errLate {
			return 0, err
		}
		s.heard(now, err == errLate)
		if err == nil || again || ctx.Err() != nil {
			return changed, err
		}
		// There is time yet: the server's clock was set. It has told its new time.
	}
}

// heartbeatDeadline is until when a heartbeat is wanted: no longer than a place lasts.
func heartbeatDeadline(ctx context.Context, c *stint.Charge) time.Time {
	shortest := stint.MaxWindow
	for i := range 1 + len(c.And()) {
		for _, l := range c.ClaimAt(i).Limits {
			if isPlace(l) {
				shortest = min(shortest, l.Window)
			}
		}
	}
	deadline := time.Now().Add(shortest)
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		return own
	}
	return deadline
}

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	k, err := s.newShownKeys()
	if c.Kind == stint.GiveBack { // which requests lead to
		k, err = s.newKeys()
	}
	if err != nil {
		return s.wrap("command", err)
	}
	var states, places []part
	switch c.Kind {
	case stint.Reset, stint.GiveBack:
		parts := appendParts(nil, 0, 0, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
		for i := range parts {
			if !parts[i].holders() {
				states = append(states, parts[i])
			} else if c.Kind == stint.Reset {
				places = append(places, parts[i])
			}
		}
		if len(places) > 0 {
			k.inScope(c.Subject, c.Scope, "settled")
		}
		if c.Kind == stint.Reset {
			k.inScope(c.Subject, c.Scope, "ids")
		}
		for i := range places {
			k.ofPart(&places[i])
		}
		s.sets.fill(states)
		for i := range states {
			k.ofPart(&states[i])
		}
		if len(k.ends) == 0 {
			return nil // only places, which are released
		}
	default:
		k.ofSubject(c.Subject, "ban")
		k.ofSubject(c.Subject, "strikes")
	}
	call := s.nextCall()
	reply, err := commandScript.run(ctx, s.conn.get(), k.strings(), commandArgs(&c, states, places, call, s.clock()))
	if moving(err) {
		return s.wrap("command", s.commandApart(ctx, &c, k.strings(), states, places))
	}
	if err == nil {
		err = decodeCommand(reply, call)
	}
	return s.wrap("command", err)
}

// Ping asks whether the server is there. Of a Cluster it asks who is master of what, for
// that may have changed: pings are sent while calls fail.
func (s *Store) Ping(ctx context.Context) error {
	if s.cluster {
		return s.wrap("ping", s.conn.follow(ctx))
	}
	client := s.conn.get()
	return s.wrap("ping", client.Do(ctx, client.B().Ping().Build()).Error())
}

// Present says that the process of that id is there, for the next ten seconds, and
// returns how many are.
func (s *Store) Present(ctx context.Context, id string) (int, error) {
	n, err := presentScript.do(ctx, s.conn.get(), []string{s.prefix + ":instances"}, []string{id}).AsInt64()
	return int(n), s.wrap("present", err)
}

// Announcements calls f with every subject that got room back, with "~" and a hash for one
// that is too long to be in a key, as lists show it if names are hashed and the process does not remember it, and with "" if it is not known whose that was, until the
// context ends or the connection is lost. Commanded is whether it was reset, banned or
// unbanned, rather than given something back. Of what is given back it hears if more than half
// of a limit was used: package resilience remembers no other denials.
func (s *Store) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	client := s.conn.get()
	err := client.Receive(ctx, client.B().Subscribe().Channel(s.prefix+":room").Build(), func(m rueidis.PubSubMessage) {
		if m.Message == "" {
			return // not ours
		}
		name, _ := keypart.ReadName(m.Message[1:])
		f(s.names.Load().recall(name), m.Message[0] == '!')
	})
	return s.wrap("listen", err)
}
