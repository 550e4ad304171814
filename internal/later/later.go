// Package later bounds how long somebody waits for work that may go on without them.
package later

import "time"

// Most is how long a response waits for the store to take note of what follows it: as long as a
// decision may take by default.
const Most = 15 * time.Millisecond

// Do does something in the background, and waits for it for Most. It reports whether it is done.
func Do(work func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	timer := time.NewTimer(Most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
