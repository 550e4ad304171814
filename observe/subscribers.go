package observe

import "sync"

// ticksAhead is the maximum number of ticks that wait for a subscriber. A subscriber that falls
// further behind misses ticks.
const ticksAhead = 4

type subscribers struct {
	mu sync.Mutex
	// each holds the subscribers; it is nil after close. A value is true if the subscriber may have
	// missed a change in the alerts.
	each map[chan Tick]bool
}

// send sends a tick to all subscribers. If a subscriber is new or has missed a tick, it receives
// all alerts, even if they have not changed.
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
	for to := range s.each {
		close(to)
	}
	s.each = nil
}

// Subscribe returns a channel that receives one tick per second, and a function that ends the
// subscription. A subscriber that does not receive for a few seconds misses ticks. The channel is
// closed when the subscription ends or the monitor is closed. Subscribers share the data in ticks,
// so they must not change the elements of slices or the values that pointers refer to.
func (m *Monitor) Subscribe() (ticks <-chan Tick, cancel func()) {
	s := &m.subscribers
	own := make(chan Tick, ticksAhead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each == nil {
		close(own)
		return own, func() {}
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
