package histories

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// server is what a Redis server is to those who ask it: scripts run one after the other, by its own
// clock, and each that arrived is run once, whether or not its caller still waits.
type server struct {
	mu        sync.Mutex
	network   *network
	engine    *memorystore.Store
	subjects  int          // that the engine has room for
	ahead     atomic.Int64 // of the true time, in nanoseconds
	away      int          // how often it was ended and not begun again: connections are refused
	stopped   int          // as by SIGSTOP: what arrives is run when it goes on
	queue     []message
	present   map[string]time.Time // until when each process counts
	memory    int                  // how often it lost what it knew
	listeners []*listener
}

// message is a script that has arrived.
type message struct {
	run    func(*server) // with the server's lock held
	ran    func()
	refuse func() // it will not be run
}

func newServer(f *fleet) *server {
	s := &server{network: newNetwork(), subjects: 64, present: map[string]time.Time{}}
	if f != nil {
		s.subjects = 4 * f.subjects
	}
	s.engine = s.newEngine()
	return s
}

func (s *server) newEngine() *memorystore.Store {
	now := func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	e, err := memorystore.New(memorystore.Config{MaxSubjects: s.subjects, Now: now})
	if err != nil {
		panic(err)
	}
	return e
}

func (s *server) close() {
	close(s.network.done)
	s.engine.Close()
}

// arrive runs a script, now or when the server goes on.
func (s *server) arrive(m message) {
	s.mu.Lock()
	switch {
	case s.away > 0:
		s.mu.Unlock()
		m.refuse()
	case s.stopped > 0:
		s.queue = append(s.queue, m)
		s.mu.Unlock()
	default:
		m.run(s)
		s.mu.Unlock()
		m.ran()
	}
}

// stop stops the server, and goOn ends that: everything that arrived meanwhile is run, in its
// order.
func (s *server) stop() {
	s.mu.Lock()
	s.stopped++
	s.mu.Unlock()
}

func (s *server) goOn() {
	s.mu.Lock()
	s.stopped--
	var queue []message
	if s.stopped == 0 {
		queue, s.queue = s.queue, nil
	}
	for _, m := range queue {
		m.run(s)
	}
	s.mu.Unlock()
	for _, m := range queue {
		m.ran()
	}
}

// end ends the server, and begin starts it again. What it has not run it never will.
func (s *server) end(forget bool) {
	s.mu.Lock()
	s.away++
	queue := s.queue
	s.queue = nil
	if forget {
		old := s.engine
		defer old.Close()
		s.engine = s.newEngine()
		clear(s.present)
		s.memory++
	}
	for _, l := range s.listeners {
		close(l.ended)
	}
	s.listeners = nil
	s.mu.Unlock()
	for _, m := range queue {
		m.refuse()
	}
}

func (s *server) begin() {
	s.mu.Lock()
	s.away--
	s.mu.Unlock()
}

func (s *server) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away > 0
}

// presence counts a process, for ten seconds, and returns how many there are. The lock is held.
func (s *server) presence(id string) int {
	now := time.Now()
	s.present[id] = now.Add(10 * time.Second)
	for id, until := range s.present {
		if !until.After(now) {
			delete(s.present, id)
		}
	}
	return len(s.present)
}

// announce tells who listens that subjects got room back. The lock is held.
func (s *server) announce(commanded bool, subjects ...string) {
	for _, l := range s.listeners {
		for _, subject := range subjects {
			l.tell(subject, commanded)
		}
	}
}

// leave ends a listener.
func (s *server) leave(l *listener) {
	s.mu.Lock()
	s.listeners = slices.DeleteFunc(s.listeners, func(m *listener) bool { return m == l })
	s.mu.Unlock()
	l.client.mu.Lock()
	l.left = true
	l.client.mu.Unlock()
}

// subjectsOf are those of a charge.
func subjectsOf(c *stint.Charge) []string {
	var subjects []string
	for _, claim := range c.Claims() {
		subjects = append(subjects, claim.Subject)
	}
	return subjects
}
