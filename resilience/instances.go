package resilience

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/driver"
)

// sharing tracks how many processes share the store.
type sharing struct {
	counted atomic.Int64 // the largest of the store's recent counts; 0 if there is none
	warn    sync.Once    // for the warning that the number of processes is a guess
	// startup ends once the process has tried to register in the store, but after startTime at the
	// latest, and at once if the store cannot count processes. Until then, the process may have no
	// connection to the store, and does not know about other processes: it would consider itself
	// the only one.
	startup    context.Context
	endStartup context.CancelFunc
}

// starting reports whether the process is still starting. Unlike the Err method of a context that
// has ended, it takes no lock.
func (s *Stack) starting() bool {
	select {
	case <-s.sharing.startup.Done():
		return false
	default:
		return true
	}
}

// Instances returns the number of processes known to share the store. It is the largest of the
// store's recent counts. If the store has not counted them, it is the configured number, or else
// one.
func (s *Stack) Instances() int {
	if n := s.sharing.counted.Load(); n > 0 {
		return int(n)
	}
	return max(s.config.Instances, 1)
}

// warnIfAlone warns, once, if a decision without the store is based on a guess of the number of
// instances.
func (s *Stack) warnIfAlone() {
	if s.config.Instances == 0 && s.sharing.counted.Load() == 0 {
		s.sharing.warn.Do(func() {
			s.config.Logger.Warn("stint: the number of processes that share the store is unknown; assuming only this one, " +
				"so that each admits full limits without the store; set the number " +
				"(failure.instances in a configuration, Instances in Go)")
		})
	}
}

// startTime is the longest time for which a process is considered to be starting.
const startTime = time.Second

const (
	// presentEvery is the time between two registrations of a process, and presentTime is the time
	// limit of a registration.
	presentEvery = time.Second
	presentTime  = time.Second
	// countsKept is the number of recent counts that are kept; the largest of them is used. A store
	// that lost its state counts from one again until every process has registered, and such a low
	// count would let each process admit too much.
	countsKept = 10
)

// countInstances registers the process every second, and records the number of registered
// processes. While the store fails, the number stays the same. countInstances also notices when the
// store has lost data.
func (s *Stack) countInstances(roster driver.Roster) {
	last := driver.Presence{ID: rand.Text()}
	counts := [countsKept]int{s.config.Instances} // other processes may not have registered yet
	for n := 1; s.life.Err() == nil; {
		epoch := s.ledger.epoch.Add(1)
		ctx, cancel := context.WithTimeout(s.life, presentTime)
		next, err := roster.Present(ctx, last)
		cancel()
		if err != nil {
			s.suspect() // so that an outage is logged even if no request comes
		}
		if err == nil && next.Processes > 0 {
			counts[n%countsKept] = next.Processes
			n++
			s.sharing.counted.Store(int64(slices.Max(counts[:])))
			s.noteMemory(last.Memory != "" && next.Memory != last.Memory, epoch)
			last = next
		}
		s.sharing.endStartup()
		pause := presentEvery
		if time.Since(s.start) < startTime {
			pause /= 10 // other processes may be starting, too
		}
		sleep(s.life, jitter(pause))
	}
}

// noteMemory starts to restore the state that the store has lost. lost is true if the store may
// have lost any of its state; otherwise only states that were replaced are restored. noteMemory
// also records the epoch of this heartbeat: answers of earlier epochs came before any loss that has
// yet to be noticed.
func (s *Stack) noteMemory(lost bool, epoch uint32) {
	l := s.ledger
	defer l.safe.Store(epoch)
	if s.config.NoRestore {
		return
	}
	all := l.lostSome(s.heardSince.Load())
	if lost {
		all = l.lostAll()
	}
	if len(all) > 0 {
		s.run(func() { s.restore(all) })
	}
}
