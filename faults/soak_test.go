package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/histories"
	"github.com/stint-limiter/stint/internal/redistest"
)

var soak = flag.Duration("soak", 8*time.Second, "how long faults happen at random")

// instances is how many processes there are at a time.
const instances = 3

// F36: faults at random under load, at default settings, in processes of their own. What callers
// were told, and when, is all that is looked at.
func TestF36(t *testing.T) {
	const promise = "no lost decision, no leaked goroutine, bounds kept, log bytes per request bounded"
	faultAlone(t, "F36", "random faults under load, a starved CPU among them, then shutdown; 3 processes, default settings", promise, func(r *report) {
		seed := pick(rand.Uint64(), 1)
		r.Logf("seed %d", seed)
		s := &soaking{report: r, random: rand.New(rand.NewPCG(seed, 0)), server: redistest.Start(t)}
		s.proxy = redistest.StartProxy(t, s.server.Addr())
		s.run()
	})
}

type soaking struct {
	*report
	random    *rand.Rand
	server    *redistest.Server
	proxy     *redistest.Proxy
	processes []*soakedProcess // that run
	started   int

	losses []loss // when the server lost its state

	mu    sync.Mutex
	told  map[int]history // by subject, what is yet to be judged
	most  map[string]verdict
	wrong []string
	ends  []soakEnd
	heard sync.WaitGroup
}

// loss is a time in which the server lost its state, in microseconds since the Unix epoch.
type loss struct{ from, to int64 }

// verdict is what was found about a limit: how many were admitted, and the window that came closest
// to its bound, or exceeded it by most.
type verdict struct {
	admitted, degraded int
	largest            int // admitted within one window
	count, bound       int
}

func (s *soaking) run() {
	s.told, s.most = map[int]history{}, map[string]verdict{}
	for range instances {
		s.start()
	}
	for _, p := range s.processes {
		<-p.ready
	}
	ctx, cancel := context.WithTimeout(s.Context(), *soak)
	defer cancel()
	faults := s.breakThings(ctx)
	s.mend()
	for _, p := range s.processes { // with the server there
		p.input.Close()
	}
	s.heard.Wait()
	s.judge(true)
	s.summarize(faults)
	wantTTLs(s.report, s.server)
}

// summarize holds what the processes told at their ends to the promise.
func (s *soaking) summarize(faults int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) != instances {
		s.Errorf("%d of %d processes ended in good order", len(s.ends), instances)
	}
	for _, w := range s.wrong {
		s.Error(w)
	}
	var all soakEnd
	for _, e := range s.ends {
		all.Calls += e.Calls
		all.Degraded += e.Degraded
		all.Logged += e.Logged
		all.Grown = max(all.Grown, e.Grown)
		all.Took = append(all.Took, e.Took...)
		all.Slowest = max(all.Slowest, e.Slowest)
	}
	perCall := float64(all.Logged) / float64(max(all.Calls, 1))
	if perCall > 10 {
		s.Errorf("%.1f bytes were logged per decision; want at most 10", perCall)
	}
	s.saw("%d faults in %v, %d processes, %d decisions, %.1f%% without Redis", faults, *soak, s.started, all.Calls,
		100*float64(all.Degraded)/float64(max(all.Calls, 1)))
	for _, l := range soakLimits() {
		v := s.most[l.name]
		s.Logf("%s: %d admitted, %d of them without Redis, up to %d within %v; at worst %d where at most %d may be",
			l.name, v.admitted, v.degraded, v.largest, l.limit.Window, v.count, v.bound)
		if v.count > v.bound {
			s.Errorf("%s: %d were admitted within %v; want at most %d", l.name, v.count, l.limit.Window, v.bound)
		}
	}
	slices.Sort(all.Took)
	s.saw("p99 %s, slowest %s", short(percentile(all.Took)), short(all.Slowest))
	s.saw("%.2f bytes logged per decision", perCall)
	s.saw("heap %+.1f MB", float64(all.Grown)/1e6)
}

// soakedProcess is one that asks.
type soakedProcess struct {
	cmd   *exec.Cmd
	input io.Closer
	ready chan struct{} // closed when it asks
}

// start starts a process.
func (s *soaking) start() {
	s.started++
	c := spawn(s.Context(), s, "soaks", soaker{URL: s.proxy.URL(), Number: s.started, Present: min(s.started, instances)})
	p := &soakedProcess{cmd: c.Cmd, input: c.in, ready: make(chan struct{})}
	s.processes = append(s.processes, p)
	s.heard.Go(func() { s.hear(p, c.out) })
}

// hear notes what a process tells, until it ends.
func (s *soaking) hear(p *soakedProcess, output io.Reader) {
	ready := false
	for in := json.NewDecoder(output); ; {
		var d dispatch
		if err := in.Decode(&d); err != nil {
			break // it has ended, or was killed
		}
		if d.Ready {
			ready = true
			close(p.ready)
		}
		s.mu.Lock()
		for _, a := range d.Answers {
			s.told[a.Subject] = append(s.told[a.Subject], a)
		}
		s.wrong = append(s.wrong, d.Wrong...)
		if d.End != nil {
			s.ends = append(s.ends, *d.End)
		}
		s.mu.Unlock()
	}
	if !ready {
		close(p.ready)
	}
	_ = p.cmd.Wait() // that it ended well is told by its last words
}

// lag is how late an answer may be told.
const lag = 20 * time.Second

// judge holds what callers were told to the bound in every window, and forgets what no window needs
// any more. All but the last time it leaves out what others may have yet to tell of.
func (s *soaking) judge(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := soakLimits()
	for subject, h := range s.told {
		l := limits[subject%len(limits)]
		v := s.most[l.name]
		until := time.Now().Add(-lag - l.limit.Window).UnixMicro()
		s.judgeOne(l, h, &v)
		s.told[subject] = slices.DeleteFunc(h, func(a answer) bool {
			old := last || a.Called < until
			if old {
				v.admitted++
				if a.Degraded {
					v.degraded++
				}
			}
			return old
		})
		s.most[l.name] = v
	}
}

// judgeOne looks at every window of a subject.
//
// Redis grants at most a capacity, and one more for each loss of its state. Without it each process
// grants its part of what is left since it last heard of Redis, which is then charged: all of them
// together a capacity, rounded up. A process that has a subject for itself knows all of it, and
// grants nothing beyond the limit.
func (s *soaking) judgeOne(l soaked, h history, v *verdict) {
	capacity := int(l.limit.Capacity())
	part := instances * int((l.limit.Max+instances-1)/instances) * int(l.limit.Capacity()/l.limit.Max)
	worse := func(n, bound int) {
		if v.bound == 0 || n-bound > v.count-v.bound {
			v.count, v.bound = n, bound
		}
	}
	slices.SortFunc(h, func(a, b answer) int { return cmp.Compare(a.Returned, b.Returned) })
	windows := histories.NewWindows(&l.limit)
	for _, a := range h {
		all, without := windows.Admit(0, 0, time.Duration(a.Called)*time.Microsecond,
			time.Duration(a.Returned)*time.Microsecond, 1, a.Degraded)
		total, degraded, granted := int(all), int(without), capacity
		if total > capacity {
			granted *= 1 + s.lossesIn(a.Returned-2*l.limit.Window.Microseconds(), a.Returned)
		}
		v.largest = max(v.largest, total)
		worse(total-degraded, granted)
		if l.strict || l.own {
			worse(total, granted)
		} else {
			parts := pick(1, 2) * part // a busy machine is overloaded more than once in a window
			worse(total, granted+parts)
		}
	}
}

// lossesIn is how often the server lost its state in some time.
func (s *soaking) lossesIn(from, to int64) (n int) {
	for _, l := range s.losses {
		if l.to >= from && l.from <= to {
			n++
		}
	}
	return n
}

// breakThings does one thing after the other until the time is up, and returns how many.
func (s *soaking) breakThings(ctx context.Context) int {
	things := []func(){
		func() { s.server.Pause(s); s.pass(ctx, 1500); s.server.Resume(s) },
		func() { s.losing(func() { s.server.Kill(); s.pass(ctx, 1500); s.server.Restart(s) }) },
		func() { s.proxy.Cut(); s.pass(ctx, 1000); s.proxy.Restore() },
		func() { s.proxy.Silence(); s.pass(ctx, 1000); s.proxy.Restore() },
		func() {
			s.proxy.SetLatency(5*time.Millisecond, 20*time.Millisecond)
			s.pass(ctx, 1000)
			s.proxy.SetLatency(0, 0)
		},
		func() { s.proxy.DropNext(redistest.Replies, 5); s.pass(ctx, 300) },
		func() { s.proxy.DropNext(redistest.Requests, 5); s.pass(ctx, 300) },
		func() { s.proxy.SetBandwidth(5000); s.pass(ctx, 500); s.proxy.SetBandwidth(0) },
		func() { s.proxy.SetSlice(3, 100*time.Microsecond); s.pass(ctx, 500); s.proxy.SetSlice(0, 0) },
		func() { s.do("SCRIPT", "FLUSH"); s.pass(ctx, 200) },
		func() {
			s.do("CONFIG", "SET", "maxmemory", "1")
			s.pass(ctx, 500)
			s.do("CONFIG", "SET", "maxmemory", "0")
		},
		func() { s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); s.pass(ctx, 200) },
		func() { s.do("CLIENT", "PAUSE", "300", "ALL"); s.pass(ctx, 400) },
		func() { s.losing(func() { s.do("FLUSHALL") }); s.pass(ctx, 300) },
		func() { end := starve(s.report, 3); s.pass(ctx, 3000); end() },
		func() { // a process is not scheduled for a while
			p := s.processes[s.random.IntN(instances)].cmd.Process
			s.signal(p, redistest.Stop)
			s.pass(ctx, 1000)
			s.signal(p, redistest.Continue)
		},
		func() { // a process dies, and another takes its place
			n := s.random.IntN(instances)
			s.signal(s.processes[n].cmd.Process, syscall.SIGKILL)
			s.processes = slices.Delete(s.processes, n, n+1)
			s.start()
			<-s.processes[instances-1].ready
		},
	}
	judged := time.Now()
	n := 0
	for ; ctx.Err() == nil; n++ {
		s.pass(ctx, 600) // in peace
		if ctx.Err() == nil {
			things[s.random.IntN(len(things))]()
		}
		if time.Since(judged) > 2*lag {
			s.judge(false)
			judged = time.Now()
		}
	}
	return n
}

// pass lets up to so many milliseconds pass.
func (s *soaking) pass(ctx context.Context, most int) {
	sleepUntil(ctx, time.Duration(1+s.random.IntN(most))*time.Millisecond)
}

// losing notes that the server loses its state.
func (s *soaking) losing(f func()) {
	from := time.Now().UnixMicro()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, loss{from, time.Now().UnixMicro()})
}

func (s *soaking) signal(p *os.Process, sig syscall.Signal) {
	if err := p.Signal(sig); err != nil {
		s.Errorf("%v: %v", sig, err)
	}
}

func (s *soaking) do(args ...string) {
	if _, err := s.server.Do(args...); err != nil {
		s.Errorf("%v: %v", args, err)
	}
}

// mend makes everything well before the end.
func (s *soaking) mend() {
	s.proxy.Restore()
	s.do("CONFIG", "SET", "maxmemory", "0")
}
