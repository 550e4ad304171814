package observe

import "sync"

// ticksAhead is how many ticks a subscriber may be behind before it misses some.
const ticksAhead = 4

// audience are those who hear of every second. The zero value is nobody.
type audience struct {
	mu     sync.Mutex
	seats  map[chan Tick]bool // whether alerts may have changed that the seat does not know of
	closed bool
}

// tell tells everybody who listens. Who is new, or has missed a tick, hears of all alerts whether they have changed or not.
func (a *audience) tell(t Tick, alerts []Alert) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for seat, behind := range a.seats {
		told := t
		if behind {
			told.Alerts = alerts
		}
		select {
		case seat <- told:
			a.seats[seat] = false
		default:
			a.seats[seat] = true
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
		a.seats = map[chan Tick]bool{}
	}
	a.seats[seat] = true
	return seat, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, listens := a.seats[seat]; listens {
			delete(a.seats, seat)
			close(seat)
		}
	}
}
