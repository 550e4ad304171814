package observe

import "sync"

// ticksAhead is how many ticks a subscriber may be behind before it misses some.
const ticksAhead = 4

// subscribers are those who receive a tick every second. The zero value has none.
type subscribers struct {
	mu     sync.Mutex
	each   map[chan Tick]bool // whether alerts may have changed that the subscriber does not know of
	closed bool
}

// send sends a tick to everyone. A subscriber that is new, or has missed a tick, receives all
// alerts whether they have changed or not.
func (s *subscribers) send(t Tick, alerts []Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for to, behind := range s.each {
		own := t
		if behind {
			own.Alerts = alerts
		}
		select {
		case to <- own:
			s.each[to] = false
		default:
			s.each[to] = true
		}
	}
}

func (s *subscribers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for to := range s.each {
		close(to)
	}
	s.each = nil
}

// Subscribe returns a channel with what happens, one tick a second, and a function that ends it. A
// subscriber that does not receive for some seconds misses ticks. The channel is closed when the
// subscription ends or the monitor is closed. What ticks refer to must not be changed.
func (m *Monitor) Subscribe() (ticks <-chan Tick, cancel func()) {
	s := &m.subscribers
	own := make(chan Tick, ticksAhead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		close(own)
		return own, func() {}
	}
	if s.each == nil {
		s.each = map[chan Tick]bool{}
	}
	s.each[own] = true
	return own, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, subscribed := s.each[own]; subscribed {
			delete(s.each, own)
			close(own)
		}
	}
}
