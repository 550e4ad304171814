package faults

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// witness is an Observer that counts.
type witness struct {
	mu     sync.Mutex
	kinds  map[stint.StoreErrorKind]int // failures of the store, by kind
	causes map[stint.StoreErrorKind]int // of decisions without the store
	tally  tally
}

// tally is what a witness has counted.
type tally struct {
	calls  int       // to the store, to decide
	asked  int       // requests in them
	shed   int       // decisions without the store for want of room to wait
	opens  int       // how often the breaker opened
	opened time.Time // when it last did
}

func newWitness() *witness {
	return &witness{kinds: map[stint.StoreErrorKind]int{}, causes: map[stint.StoreErrorKind]int{}}
}

func (w *witness) Observe(_ context.Context, event stint.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *resilience.StoreCall:
		if e.Op == "take" {
			w.tally.calls++
			w.tally.asked += e.Requests
		}
		if e.Err != nil {
			w.kinds[errkind.Of(e.Err)]++
		}
	case *resilience.Decided:
		if e.Source == resilience.SourceFallback {
			w.causes[errkind.Of(e.Cause)]++
		}
		if e.Cause != nil && strings.Contains(e.Cause.Error(), "too many callers are waiting") {
			w.tally.shed++
		}
	case *resilience.BreakerChange:
		if e.From == "closed" && e.To == "open" {
			w.tally.opens++
			w.tally.opened = time.Now()
		}
	}
}

func (w *witness) counted() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tally
}

// failed is how many calls to the store failed in that way.
func (w *witness) failed(kind stint.StoreErrorKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[kind]
}

// caused is how many decisions were made without the store for that reason.
func (w *witness) caused(kind stint.StoreErrorKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.causes[kind]
}

// logged is how many lines of a log hold all the words.
func logged(log *testkit.Buffer, words ...string) (n int) {
	for line := range strings.Lines(log.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// request is one unit of some limits.
func request(subject string, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: 1}}}
}

// take asks for one unit, and wants an answer.
func take(r *report, s stint.Store, subject string, limits ...stint.Limit) stint.Decision {
	r.Helper()
	return ask(r, s, request(subject, limits...))
}

// ask makes a request, and wants an answer.
func ask(r *report, s stint.Store, q stint.Request) stint.Decision {
	r.Helper()
	d, err := s.Take(context.Background(), q)
	if err != nil {
		r.Fatalf("%s: %v", q.Claims[0].Subject, err)
	}
	return d
}

// look asks the store itself what a subject has used: neither the deny cache nor a lease answers
// that, and it charges nothing. It reports whether the store answered.
func look(s stint.Store, subject string, limits ...stint.Limit) (used int64, ok bool) {
	q := request(subject, limits...)
	q.Claims[0].Cost = 0
	d, err := s.Take(context.Background(), q)
	if err != nil || d.Degraded {
		return 0, false
	}
	return d.Usages()[0].Used, true
}

// surely is the largest number of admissions in any window of that length that is certain: a call
// was decided at some time before its answer was here, at most as long before as the slowest took.
// More than that in a window is not for want of a precise clock.
func (o *outcome) surely(window time.Duration) int {
	return busiest(o.Admitted, window-o.quantile(1))
}

// busiest is the largest number of instants in any window of that length. They are sorted, in
// microseconds.
func busiest(instants []int64, window time.Duration) int {
	most, from := 0, 0
	for i, at := range instants {
		for from < i && at-instants[from] >= window.Microseconds() {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// attempts is how often scripts were sent to servers, run or refused.
func attempts(r *report, servers []*redistest.Server) int {
	r.Helper()
	n := 0
	for _, server := range servers {
		for line := range strings.Lines(server.CLI(r, "INFO", "commandstats")) {
			name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
				continue
			}
			for stat := range strings.SplitSeq(stats, ",") {
				if key, value, _ := strings.Cut(stat, "="); key == "calls" || key == "rejected_calls" {
					count, err := strconv.Atoi(value)
					if err != nil {
						r.Fatalf("unreadable statistics: %s", line)
					}
					n += count
				}
			}
		}
	}
	return n
}

// wantTTLs is the end of every row: nothing of ours stays in Redis for ever. All nodes of a Cluster
// may be given; replicas and servers that are down are passed over.
func wantTTLs(r *report, servers ...*redistest.Server) {
	r.Helper()
	if keys := redistest.KeysWithoutTTL(r, servers...); len(keys) > 0 {
		r.Errorf("%d keys without a TTL, such as %q", len(keys), keys[0])
	}
}

// patient configures a stack that answers by the store alone, however long that takes.
func patient(observer stint.Observer) resilience.Config {
	return resilience.Config{Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: patience}, Observer: observer}
}

// inParallel calls f with all numbers below n, by several workers.
func inParallel(workers, n int, f func(worker, i int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for worker := range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(worker, i)
			}
		})
	}
	group.Wait()
}

// childEnv makes this test binary a child with the life of that name. jobEnv holds its job as JSON.
const (
	childEnv = "STINT_FAULTS_CHILD"
	jobEnv   = "STINT_FAULTS_JOB"
)

// lives are what children do.
var lives = map[string]func() error{
	"calls": life(work), "burns": life(burn), "soaks": life(soakUntilEOF), "starts": life(startNow),
}

func life[J any](live func(J) error) func() error {
	return func() error {
		var job J
		if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &job); err != nil {
			return err
		}
		return live(job)
	}
}

// child is a process of this test binary.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

// spawn starts a child with the life of that name, which does a job.
func spawn(ctx context.Context, t testing.TB, name string, job any) child {
	t.Helper()
	text := testkit.Must(json.Marshal(job))(t)
	c := child{Cmd: exec.CommandContext(ctx, os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+name, jobEnv+"="+string(text))
	c.Stderr = os.Stderr
	c.in, c.out = testkit.Must(c.StdinPipe())(t), testkit.Must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}
