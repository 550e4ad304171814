package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// Store is a [stint.Store] over Redis. It is safe for concurrent use.
type Store struct {
	client     rueidis.Client
	owned      bool // whether Close closes the client
	prefix     string
	cluster    bool
	take       *script
	amend      *script
	command    *script
	calls      atomic.Uint64
	identities atomic.Pointer[map[identity]string]
	clock      func() int64 // 0 but in tests: the server's
}

var _ stint.Store = (*Store)(nil)

func newStore(client rueidis.Client, o options) *Store {
	s := &Store{
		client:  client,
		prefix:  o.prefix,
		cluster: client.Mode() == rueidis.ClientModeCluster,
		take:    joinScript("take"),
		amend:   joinScript("amend"),
		command: joinScript("command"),
		clock:   func() int64 { return 0 },
	}
	s.identities.Store(&map[identity]string{})
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	s.calls.Store(binary.BigEndian.Uint64(seed[:]))
	return s
}

// Close closes the connections, unless the client is the caller's.
func (s *Store) Close() error {
	if s.owned {
		s.client.Close()
	}
	return nil
}

// nextCall returns an id that no other call has, in any process: replies are held
// against it, and charges are named by it.
func (s *Store) nextCall() uint64 {
	for {
		if id := s.calls.Add(1); id != 0 {
			return id
		}
	}
}

// Take decides a request. See [stint.Store].
func (s *Store) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	var d stint.Decision
	var err error
	if s.cluster && len(r.And) > 0 {
		d, err = s.takeSplit(ctx, &r)
	} else {
		d, err = s.takeOne(ctx, &r, s.nextCall())
	}
	return d, wrap("take", err)
}

func (s *Store) takeOne(ctx context.Context, r *stint.Request, call uint64) (stint.Decision, error) {
	k := keys{store: s, buf: make([]byte, 0, 128), ends: make([]int, 0, 8)}
	claims := 1 + len(r.And)
	for i := range claims {
		c := claimAt(r, i)
		k.ofLimits(c.Subject, c.Scope, c.Limits)
	}
	if r.Bans != nil {
		for _, what := range [...]string{"ban", "strikes"} {
			for i := range claims {
				k.ofSubject(claimAt(r, i).Subject, what)
			}
		}
	}
	if r.ID != "" {
		k.inScope(r.Subject, r.Scope, "ids")
	}
	reply, err := s.take.run(ctx, s.client, k.strings(), takeArgs(r, call, s.clock()))
	if err != nil {
		return stint.Decision{}, err
	}
	return decodeTake(reply, call, r)
}

// Amend changes an earlier charge. See [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	if err := errors.Join(c.Validate(), a.Validate()); err != nil {
		return false, err
	}
	var changed bool
	var err error
	if s.cluster && len(c.And()) > 0 {
		changed, err = s.amendSplit(ctx, &c, a)
	} else {
		changed, err = s.amendOne(ctx, &c, a)
	}
	return changed, wrap("amend", err)
}

func (s *Store) amendOne(ctx context.Context, c *stint.Charge, a stint.Amendment) (bool, error) {
	k := keys{store: s}
	k.inScope(c.Claim.Subject, c.Claim.Scope, "settled")
	k.ofLimits(c.Claim.Subject, c.Claim.Scope, c.Claim.Limits)
	for _, and := range c.And() {
		k.inScope(and.Subject, and.Scope, "settled")
		k.ofLimits(and.Subject, and.Scope, and.Limits)
	}
	if c.RequestID() != "" {
		k.inScope(c.Claim.Subject, c.Claim.Scope, "ids")
	}
	call := s.nextCall()
	reply, err := s.amend.run(ctx, s.client, k.strings(), amendArgs(c, a, call, s.clock()))
	if err != nil {
		return false, err
	}
	return decodeAmend(reply, call)
}

// Command acts on one subject. See [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	k := keys{store: s}
	if c.Kind == stint.Reset {
		k.ofLimits(c.Subject, c.Scope, c.Limits)
		k.inScope(c.Subject, c.Scope, "ids")
	} else {
		k.ofSubject(c.Subject, "ban")
		k.ofSubject(c.Subject, "strikes")
	}
	call := s.nextCall()
	reply, err := s.command.run(ctx, s.client, k.strings(), commandArgs(&c, call, s.clock()))
	if err == nil {
		err = decodeCommand(reply, call)
	}
	return wrap("command", err)
}

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*stint.InvalidError); ok {
		return err
	}
	return &stint.StoreError{Op: op, Err: err}
}
