package observe

import "sync"

// ticksAhead is how many ticks a subscriber may be behind before it misses some.
const ticksAhead = 4

// audience are those who hear of every second. The zero value is nobody.
type audience struct {
	mu     sync.Mutex
	seats  map[chan Tick]struct{}
	closed bool
}

// tell tells everybody who listens.
func (a *audience) tell(t Tick) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for seat := range a.seats {
		select {
		case seat <- t:
		default:
		}
	}
}

// dismiss ends it for all.
func (a *audience) dismiss() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for seat := range a.seats {
		close(seat)
	}
	a.seats = nil
}

// Subscribe returns a channel of what happens, one tick a second, and what ends it. Whoever does not listen for some
// seconds misses ticks. The channel is closed when the subscription ends, or the monitor is closed. What ticks refer to
// must not be changed.
func (m *Monitor) Subscribe() (ticks <-chan Tick, cancel func()) {
	a := &m.audience
	seat := make(chan Tick, ticksAhead)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		close(seat)
		return seat, func() {}
	}
	if a.seats == nil {
		a.seats = map[chan Tick]struct{}{}
	}
	a.seats[seat] = struct{}{}
	return seat, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, listens := a.seats[seat]; listens {
			delete(a.seats, seat)
			close(seat)
		}
	}
}
