package resilience

import "time"

// On returns the configuration on a clock of the test's.
func (c FallbackConfig) On(now func() time.Time) FallbackConfig {
	c.now = now
	return c
}

// Divide is a process's part of a limit.
var Divide = divide
