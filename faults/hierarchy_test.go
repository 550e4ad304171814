package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/histories"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// The organization has two teams of four users. Each team has two processes, and each user asks one
// of them, from several callers, who pause between two requests.
const (
	orgTeams      = 2
	teamUsers     = 4
	teamProcesses = 2
	userCallers   = 4
	callerPause   = 80 * time.Millisecond // on average
)

// orgClaims are the claims of a user's request. A user asks for 600 units in 12 s: the first of a
// team for more than its limit, and the second team for more than that of the team.
func orgClaims(user int) []stint.Claim {
	most, team := int64(900), user/teamUsers
	if user%teamUsers == 0 {
		most = 450
	}
	of := func(subject string, most int64, window time.Duration) stint.Claim {
		return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.Per(most, window).WithLease()}, Cost: 1}
	}
	return []stint.Claim{of(fmt.Sprint("user ", user), most, 12*time.Second),
		of(fmt.Sprint("team ", team), [orgTeams]int64{2600, 1500}[team], 10*time.Second), of("org", 3600, 8*time.Second)}
}

// orgEnv makes this test binary a process of the organization, which answers until its input ends.
const orgEnv = "STINT_FAULTS_ORG"

type orgJob struct {
	URL      string
	NoLeases bool
}

// answerOrg is the life of a process of the organization.
func answerOrg(text string) error {
	var j orgJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, err := openStack(context.Background(), j.URL, resilience.Config{NoLeases: j.NoLeases,
		Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: patience}})
	if err != nil {
		return err
	}
	calls := rpc.NewServer()
	if err := calls.RegisterName("Org", &orgService{s}); err != nil {
		return err
	}
	calls.ServeConn(pipes{os.Stdin, os.Stdout})
	return s.Close()
}

type orgService struct{ stack *stack }

// OrgAnswer is a decision about a user's request.
type OrgAnswer struct{ Allowed, Degraded bool }

// Ask decides on a request of a user.
func (s *orgService) Ask(user int, a *OrgAnswer) error {
	d, err := s.stack.Take(context.Background(), stint.Request{Claims: orgClaims(user)})
	*a = OrgAnswer{d.Allowed, d.Degraded}
	return err
}

// pipes are a connection.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// orgProcess is one that answers.
type orgProcess struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

// org is an organization, and what its users were told.
type org struct {
	*report
	ways     []*redistest.Proxy
	noLeases bool

	mu        sync.Mutex
	processes []*orgProcess // nil if it is not there
	told      []orgCall
}

// orgCall is a request of a user: from its call to its answer, since the start.
type orgCall struct {
	user, slot int
	from, to   time.Duration
	err        error
	OrgAnswer
}

func (o *org) start(slot int) {
	c := spawn(o.Context(), o, orgEnv, orgJob{calm(o.ways[slot].URL()), o.noLeases})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.processes[slot] = &orgProcess{c.Cmd, rpc.NewClient(pipes{c.out, c.in})}
}

// of is the process that a user asks: its own, or another of its team while that is dead.
func (o *org) of(user int) (slot int, p *orgProcess) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range teamProcesses {
		slot = user/teamUsers*teamProcesses + (user+n)%teamProcesses
		if p = o.processes[slot]; p != nil {
			break
		}
	}
	return slot, p
}

// use has all users ask until the context ends.
func (o *org) use(ctx context.Context, begun time.Time) {
	var users sync.WaitGroup
	for caller := range orgTeams * teamUsers * userCallers {
		users.Go(func() {
			for ctx.Err() == nil {
				user := caller / userCallers
				slot, p := o.of(user)
				c := orgCall{user: user, slot: slot, from: time.Since(begun)}
				c.err = p.calls.Call("Org.Ask", user, &c.OrgAnswer)
				o.mu.Lock()
				c.to = time.Since(begun)
				o.told = append(o.told, c)
				o.mu.Unlock()
				sleepUntil(ctx, rand.N(2*callerPause))
			}
		})
	}
	users.Wait()
}

// kill ends a process by SIGKILL, and starts another in its place.
func (o *org) kill(slot int) {
	o.mu.Lock()
	p := o.processes[slot]
	o.processes[slot] = nil
	o.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		o.Error(err)
	}
	_ = p.cmd.Wait()
	_ = p.calls.Close()
	o.start(slot)
}

// cut cuts a process off from Redis for a time.
func (o *org) cut(slot int, d time.Duration) {
	o.ways[slot].Cut()
	time.Sleep(d)
	o.ways[slot].Restore()
	o.mu.Lock()
	before := len(o.told)
	o.mu.Unlock()
	testkit.Eventually(o, "a process that was cut off admits again", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return slices.ContainsFunc(o.told[before:], func(c orgCall) bool { return c.slot == slot && c.Allowed && !c.Degraded })
	})
}

// judge counts every window of every level, and returns the share that was admitted of what an
// exact limiter at one place admits, which knows no faults and no delays.
func (o *org) judge() (served float64) {
	var limits []*stint.Limit // of each user: its own, that of its team and that of the organization
	for user := range orgTeams * teamUsers {
		for _, claim := range orgClaims(user) {
			limits = append(limits, &claim.Limits[0])
		}
	}
	var failed rpc.ServerError // else its process was killed
	slices.SortStableFunc(o.told, func(a, b orgCall) int { return cmp.Compare(a.to, b.to) })
	told, windows, fullest := 0, histories.NewWindows(limits...), map[string]int64{}
	for _, c := range o.told {
		switch {
		case errors.As(c.err, &failed):
			o.Errorf("user %d: %v", c.user, c.err)
		case c.Allowed && c.Degraded:
			o.Errorf("user %d was admitted without Redis", c.user)
		case c.Allowed:
			told++
			for level, number := range []int{3 * c.user, 3*(c.user/teamUsers*teamUsers) + 1, 2} {
				all, _ := windows.Admit(number, 0, c.from-time.Microsecond, c.to, 1, false)
				subject := orgClaims(c.user)[level].Subject
				if fullest[subject] = max(fullest[subject], all); all > limits[number].Max {
					o.Errorf("%s: %d admitted under %v", subject, all, limits[number])
				}
			}
		}
	}
	o.Logf("%d decisions; most in one window: %v", len(o.told), fullest)
	slices.SortStableFunc(o.told, func(a, b orgCall) int { return cmp.Compare(a.from, b.from) })
	ideal, admitted := 0, map[string][]time.Duration{}
	for _, c := range o.told {
		fits := true
		for _, claim := range orgClaims(c.user) {
			l, log := claim.Limits[0], admitted[claim.Subject]
			fits = fits && (len(log) < int(l.Max) || log[len(log)-int(l.Max)] <= c.from-l.Window)
		}
		if fits {
			ideal++
			for _, claim := range orgClaims(c.user) {
				admitted[claim.Subject] = append(admitted[claim.Subject], c.from)
			}
		}
	}
	return float64(told) / float64(max(ideal, 1))
}

// organize runs an organization, and returns the share that it served and the calls of Redis per
// decision.
func (r *report) organize(noLeases bool, faults ...func(*org)) (served, calls float64) {
	redis := redistest.Start(r)
	o := &org{report: r, noLeases: noLeases, processes: make([]*orgProcess, orgTeams*teamProcesses)}
	for slot := range o.processes {
		o.ways = append(o.ways, redistest.StartProxy(r, redis.Addr()))
		o.start(slot)
	}
	before := attempts(r, []*redistest.Server{redis})
	ctx, cancel := context.WithCancel(r.Context())
	var using sync.WaitGroup
	using.Go(func() { o.use(ctx, time.Now()) })
	for _, f := range faults {
		time.Sleep(pick(8*time.Second, 3*time.Second))
		f(o)
	}
	time.Sleep(pick(8*time.Second, 3*time.Second))
	cancel()
	using.Wait()
	calls = float64(attempts(r, []*redistest.Server{redis})-before) / float64(len(o.told))
	for _, p := range o.processes {
		_ = p.calls.Close()
		if err := p.cmd.Wait(); err != nil {
			r.Error(err)
		}
	}
	wantTTLs(r, redis)
	return o.judge(), calls
}

func TestHierarchy(t *testing.T) {
	fault(t, "hierarchy", "an organization, its teams and users, all leased; four processes, two of them killed, one cut off from Redis",
		"never over in any window of any level; at least 95% of what the limits allow served; far fewer calls than without leases",
		func(r *report) {
			served, calls := r.organize(false, func(o *org) { o.kill(0) }, func(o *org) { o.cut(1, 300*time.Millisecond) },
				func(o *org) { o.kill(2) })
			_, without := r.organize(true)
			r.saw("%.1f%% served, %.2f calls of Redis per decision; without leases %.2f", 100*served, calls, without)
			if calls > without {
				r.Error("leases cost calls")
			}
			if *measure && (served < 0.95 || calls > without/2) {
				r.Error("want at least 95% served, with half the calls at most")
			}
		})
}
