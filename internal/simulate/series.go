package simulate

import "time"

// series counts requests in equal steps of time. The steps grow with the time span, so that there
// are at most maxSteps.
type series struct {
	length int // index in stepLengths
	start  int64
	steps  []Count
}

const maxSteps = 480

// stepLengths lists the possible lengths of steps. Each is a multiple of the previous one. The
// longest are for logs in which some times are wrong.
var stepLengths = [...]time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	70 * 24 * time.Hour, 700 * 24 * time.Hour, 7000 * 24 * time.Hour,
}

func (s *series) microseconds() int64 { return stepLengths[s.length].Microseconds() }

// add adds a count at the time now, in Unix microseconds. now must not be before the time of an
// earlier call.
func (s *series) add(now int64, c *Count) {
	if len(s.steps) == 0 {
		s.start = now - now%s.microseconds()
	}
	i := (now - s.start) / s.microseconds()
	for i >= maxSteps && s.length < len(stepLengths)-1 {
		s.widen()
		i = (now - s.start) / s.microseconds()
	}
	for int(i) >= len(s.steps) {
		s.steps = append(s.steps, Count{})
	}
	s.steps[i].add(c)
}

// widen combines the steps into steps of the next length. It works in place, because no step moves
// to a higher index.
func (s *series) widen() {
	old := s.microseconds()
	s.length++
	start := s.start - s.start%s.microseconds()
	wide := s.steps[:0]
	for i, narrow := range s.steps {
		to := int((s.start + int64(i)*old - start) / s.microseconds())
		for len(wide) <= to {
			wide = append(wide, Count{})
		}
		wide[to].add(&narrow)
	}
	s.start, s.steps = start, wide
}

func (s *series) result() Series {
	r := Series{Step: Duration(stepLengths[s.length]), Allowed: []int64{}, Denied: []int64{}, Shadowed: []int64{}}
	if len(s.steps) > 0 {
		r.Start = instant(s.start)
	}
	for _, step := range s.steps {
		r.Allowed = append(r.Allowed, step.Allowed)
		r.Denied = append(r.Denied, step.Denied)
		r.Shadowed = append(r.Shadowed, step.Shadowed)
	}
	return r
}
