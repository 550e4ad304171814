//go:build !linux

package redistest

import "time"

// alarm wakes one goroutine at a set time, which other goroutines may change.
type alarm struct{ timer *time.Timer }

func newAlarm() (*alarm, error) { return &alarm{time.NewTimer(never)}, nil }

// set makes [alarm.wait] return after d, and replaces any earlier setting.
func (a *alarm) set(d time.Duration) { a.timer.Reset(d) }

func (a *alarm) wait() { <-a.timer.C }

func (a *alarm) close() { a.timer.Stop() }
