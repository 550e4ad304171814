//go:build !linux

package redistest

import "time"

// alarm wakes one goroutine at a time that others may change.
type alarm struct{ timer *time.Timer }

func newAlarm() (*alarm, error) { return &alarm{time.NewTimer(never)}, nil }

// set lets wait return after d, whatever was set before.
func (a *alarm) set(d time.Duration) { a.timer.Reset(d) }

func (a *alarm) wait() { <-a.timer.C }

func (a *alarm) close() { a.timer.Stop() }
