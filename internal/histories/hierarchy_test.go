package histories

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// hierarchy is a fleet with one kind of callers: the users of the teams of one organization. Each
// team is in a region of its own and has a thousand users, with two requests a second each, 138
// units a minute. The limits of teams and organization are leased. The users' limits are not, unless
// blocks is set: then each user asks one process, and has a window that is long enough for a block
// to pay.
type hierarchy struct {
	blocks bool
	each   int64 // units a minute for each user that the limits of teams and organization have
}

const teamUsers = 1000

func (h *hierarchy) rate() float64 { return 2 * teamUsers * float64(len(far)) }

func (h *hierarchy) crowds() []crowd {
	user := stint.Per(40, 10*time.Second)
	if h.blocks {
		user = stint.PerHour(10_000).WithLease()
	}
	return []crowd{{name: "user, team, organization", share: 100, mode: stint.FailDeny, own: h.blocks, levels: []level{
		{1, []stint.Limit{user}},
		{teamUsers, []stint.Limit{stint.PerMinute(h.each * teamUsers).WithLease()}},
		{teamUsers * len(far), []stint.Limit{stint.PerHour(60 * h.each * teamUsers * int64(len(far))).WithLease()}},
	}}}
}

// shots are requests of all users alike.
func (h *hierarchy) shots(f *fleet) iter.Seq2[int, shot] {
	return func(yield func(int, shot) bool) {
		rng := rand.New(rand.NewPCG(f.seed, 1<<40))
		at := warmUp
		for n := range f.decisions {
			at += time.Duration(1 + rng.ExpFloat64()/h.rate()*float64(time.Second))
			s := shot{at: at, user: rng.IntN(f.subjects), cost: 1}
			region := s.user / teamUsers
			s.slot = rng.IntN(f.processes/len(far))*len(far) + region
			if h.blocks {
				s.slot = s.user%(f.processes/len(far))*len(far) + region
			}
			switch n := rng.IntN(100); {
			case n < 10:
				s.cost = 2 + rng.Int64N(2)
			case n == 10:
				s.settle, s.truth = scaled(rng, time.Millisecond, 3*time.Second), pick[int64](rng, 0, 0, 2)
			}
			if f.last > 0 && n > f.last || !yield(n, s) {
				return
			}
		}
	}
}

// faults are a process that is killed every twenty seconds, and a region that is cut off for half a
// second every fifteen.
func (h *hierarchy) faults(f *fleet) (all []fault) {
	rng := rand.New(rand.NewPCG(f.seed, 2<<40))
	for at := warmUp + time.Second; at < f.lasts(); at += 20 * time.Second {
		all = append(all, fault{kind: die, slot: rng.IntN(f.processes), from: at, to: at + time.Second, loses: true})
	}
	for at := warmUp + 10*time.Second; at < f.lasts(); at += 15 * time.Second {
		for slot := rng.IntN(len(far)); slot < f.processes; slot += len(far) {
			all = append(all, fault{kind: lossyLink, slot: slot, from: at, to: at + 500*time.Millisecond,
				lose: [2]float64{1, 1}})
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int { return int(a.from - b.from) })
	return all
}

// Processes in three regions share an organization, its teams and their users through one
// server: no window of any level is over. Nearly all that the limits allow is served, and most of it
// from memory: these bounds are those of a long run, which make prove has.
func TestHierarchies(t *testing.T) {
	testkit.SkipUnderRace(t)
	const long = 1_000_000
	for _, test := range []struct {
		name   string
		h      hierarchy
		served float64 // of what an exact limiter without faults and delays admits, at least
		calls  float64 // per decision, at most; without heartbeats, one a second for each process
	}{
		{"users without blocks", hierarchy{each: 160}, 0.95, 1},
		{"users with blocks", hierarchy{each: 160, blocks: true}, 0.95, 0.05},
		{"full", hierarchy{each: 100, blocks: true}, 0.9, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fleet{seed: max(*seed, 1), decisions: min(*decisions, long), processes: 51,
				subjects: len(far) * teamUsers, hierarchy: &test.h}
			o := f.in(t)
			if len(o.Wrong) > 0 {
				t.Fatalf("%v\n%v", f, &o)
			}
			served, calls := float64(o.Units)/float64(f.ideal()), float64(o.Calls)/float64(o.Decisions)
			t.Logf("%v\n%v\nserved %.1f%%, %.3f calls per decision", f, &o, 100*served, calls)
			if f.decisions == long && (served < test.served || calls > test.calls) {
				t.Errorf("served %.3f with %.3f calls per decision, want %v and %v", served, calls, test.served, test.calls)
			}
		})
	}
}
