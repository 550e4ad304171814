package sizing

import "time"

// Calls is what a store is asked for.
type Calls struct {
	// Decisions is how many requests are decided. Subjects is how many subjects these ask about,
	// and Windows how many limits: each counts as often as it is asked for.
	Decisions int64 `json:"decisions"`
	Subjects  int64 `json:"-"`
	Windows   int64 `json:"-"`
	// Settlements is how many charges are refunded or settled.
	Settlements int64 `json:"settlements"`
}

// Plus returns the sum of both.
func (c Calls) Plus(d Calls) Calls {
	return Calls{c.Decisions + d.Decisions, c.Subjects + d.Subjects, c.Windows + d.Windows,
		c.Settlements + d.Settlements}
}

// Minus returns the difference.
func (c Calls) Minus(d Calls) Calls {
	return Calls{c.Decisions - d.Decisions, c.Subjects - d.Subjects, c.Windows - d.Windows,
		c.Settlements - d.Settlements}
}

// Cost returns what calls cost together: a decision of one subject with one window, and more for
// each further subject and each further window.
func (w *Way) Cost(c Calls) Cost {
	subject := w.Two.Plus(-1, w.One)
	window := w.Three.Plus(-1, w.One).Times(0.5)
	return w.One.Times(float64(c.Decisions)).
		Plus(float64(c.Subjects-c.Decisions), subject).
		Plus(float64(c.Windows-c.Subjects), window).
		Plus(float64(c.Settlements), Settled)
}

// Times returns n times the cost.
func (c Cost) Times(n float64) Cost {
	return Cost{n * c.CPU, n * c.In, n * c.Out, n * c.Replicated, n * c.Client}
}

// Plus returns the sum of the cost and n times another.
func (c Cost) Plus(n float64, d Cost) Cost {
	return Cost{c.CPU + n*d.CPU, c.In + n*d.In, c.Out + n*d.Out, c.Replicated + n*d.Replicated, c.Client + n*d.Client}
}

// Need returns what calls within a second cost on servers that use Target of their cores.
func (w *Way) Need(c Calls) Cost { return w.Cost(c).Plus(float64(c.Decisions)*(1-Target), w.Wake) }

// Use returns the share u of one core that calls within a second use: u = busy + wake·(1-u).
func (w *Way) Use(c Calls) float64 {
	busy, wake := w.Cost(c).CPU/1e6, float64(c.Decisions)*w.Wake.CPU/1e6
	return (busy + wake) / (1 + wake)
}

// Cores returns how many cores of Redis a cost per second needs, each used to Target.
func (c Cost) Cores() float64 { return c.CPU / 1e6 / Target }

// Blocks returns how many blocks of units a process takes per second for a subject whose limits are
// leased, by their shortest window: one every half of a lease, which lasts a twentieth of the
// window, but 20 ms to 5 s.
func Blocks(window time.Duration) float64 {
	lease := min(max(window/20, 20*time.Millisecond), 5*time.Second, window/2)
	return 2 / lease.Seconds()
}
