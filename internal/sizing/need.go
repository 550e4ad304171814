package sizing

import "time"

// Calls counts calls to a store.
type Calls struct {
	// Decisions is the number of requests that are decided. Subjects is the number of subjects in
	// them, and Windows the number of limits; both count repetitions.
	Decisions int64 `json:"decisions"`
	Subjects  int64 `json:"-"`
	Windows   int64 `json:"-"`
	// Settlements is the number of charges that are refunded or settled.
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

// Cost returns the total cost of calls: that of a decision on one subject with one window, and more
// for each further subject and each further window.
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

// Plus returns the cost plus n times another.
func (c Cost) Plus(n float64, d Cost) Cost {
	return Cost{c.CPU + n*d.CPU, c.In + n*d.In, c.Out + n*d.Out, c.Replicated + n*d.Replicated, c.Client + n*d.Client}
}

// Need returns the cost of calls within a second on servers that use Target of their cores.
func (w *Way) Need(c Calls) Cost { return w.Cost(c).Plus(float64(c.Decisions)*(1-Target), w.Wake) }

// Use returns the share u of one core that calls within a second take: u = busy + wake·(1-u).
func (w *Way) Use(c Calls) float64 {
	busy, wake := w.Cost(c).CPU/1e6, float64(c.Decisions)*w.Wake.CPU/1e6
	return (busy + wake) / (1 + wake)
}

// Cores returns the number of Redis cores that a cost per second needs, each used to Target.
func (c Cost) Cores() float64 { return c.CPU / 1e6 / Target }

// Blocks returns how many blocks of units per second a process takes for a subject with leased
// limits, given their shortest window, at most: one every half of a lease. A lease lasts a twentieth
// of the window, within 20 ms to a minute.
func Blocks(window time.Duration) float64 {
	lease := min(max(window/20, 20*time.Millisecond), time.Minute, window/2)
	return 2 / lease.Seconds()
}
