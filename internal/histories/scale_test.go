package histories

import (
	_ "embed" // the page of the report
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/chart"
	"github.com/stint-limiter/stint/internal/testkit"
)

var (
	decisions = flag.Int("decisions", 100_000, "the `number` of decisions at scale")
	output    = flag.String("o", "", "compare with other designs, and write a report to `file`.md, .json and .html")
)

// fleetOf has as many processes as suit a number of decisions.
func fleetOf(seed uint64, decisions int) *fleet {
	f := &fleet{seed: seed, decisions: decisions, processes: 6, subjects: 1_000_000}
	for n := 100_000; n < decisions && f.processes < 48; n *= 10 {
		f.processes = min(48, 4*f.processes)
	}
	return f
}

// in lets a fleet happen in a bubble of its own.
func (f *fleet) in(t *testing.T) (o outcomes) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { o = f.happens() })
	return o
}

// What the stack promises holds at scale.
func TestScale(t *testing.T) {
	testkit.SkipUnderRace(t)
	f := fleetOf(max(*seed, 1), *decisions)
	begin := time.Now()
	o := f.in(t)
	t.Logf("%v, input %s\n%v\nin %v", f, f.hash(), &o, time.Since(begin).Round(time.Second))
	if len(o.Wrong) > 0 {
		small := *f
		small.shrink(t, &o)
		t.Fatalf("to run it again: go test ./internal/histories -run TestScale -args -seed %d -decisions %d\n"+
			"the smallest that fails: %d decisions, faults %v\n%s", f.seed, f.decisions, small.last, small.plan().faults, &o)
	}
	if *output != "" {
		f.report(t, &o, *output)
	}
}

// TestReport opens the page that make prove writes.
func TestReport(t *testing.T) {
	testkit.SkipUnderRace(t)
	browser := browsertest.Start(t)
	f, name := fleetOf(1, 2000), filepath.Join(t.TempDir(), "scale")
	o := f.in(t)
	f.report(t, &o, name)
	page := browser.Page(t, 1000, 800)
	page.Open("file://" + name + ".html")
	page.Wait("document.querySelector('.figure svg')")
	if got, want := page.Count("table svg"), 3*(2+len(Designs)); got != want {
		t.Errorf("%d bars, want %d", got, want)
	}
	if problems := page.Problems(); len(problems) > 0 {
		t.Errorf("the browser reports %q", problems)
	}
}

// Every defect is found within a million decisions, and what fails can be made smaller.
func TestSabotageAtScale(t *testing.T) {
	testkit.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, bug := range []sabotage{stampsAtStart, freesLeases, refundsTwice, freesParents, shortWindows, losesCharges,
		swapsAnswers, dropsNotAfter, runsTwice, answersOld, dropsDebts, chargesTwice, admitsEverybody, deniesSome} {
		t.Run(string(bug), func(t *testing.T) {
			const each = 50_000
			for s := uint64(4); s < 4+1_000_000/each; s++ { // 4 finds most of them soon
				f := fleetOf(s, each)
				f.sabotage = bug
				o := f.in(t)
				if len(o.Wrong) == 0 {
					continue
				}
				t.Logf("seed %d: %s", s, o.Wrong[0])
				if bug == admitsEverybody { // whatever the faults
					small := *f
					if small.shrink(t, &o); len(small.plan().faults) > 0 || small.last >= each/2 {
						t.Errorf("shrunk to %d decisions and the faults %v; want none", small.last, small.plan().faults)
					}
				}
				return
			}
			t.Fatal("not found")
		})
	}
}

func (f *fleet) String() string {
	return fmt.Sprintf("seed %d: %d decisions, %d processes in %d regions, %d subjects, %d faults, %v of virtual time",
		f.seed, f.decisions, f.processes, len(far), f.subjects, len(f.plan().faults), f.lasts())
}

// row is a design in the report.
type row struct {
	Name     string
	Over     float64 // by how much the worst window was over, in percent of its limit
	Unserved float64 // of the units that an exact limiter admits, in percent
	Calls    float64 // of the store, for 1,000 decisions
}

// compare has another design decide on the requests of a fleet. It also returns the units that the
// design admits.
func (f *fleet) compare(d Design) (r row, units int64) {
	v, calls := newWatch(f), 0
	var allow []func(int, time.Duration, int64) bool
	for _, l := range v.admitted.limits {
		allow = append(allow, d.New(l.Max, l.Window))
	}
	for _, s := range f.shots() {
		allowed := true
		v.each(&s, func(_ *stint.Limit, number, subject int) {
			if allowed { // the first that denies ends it; what the others counted stays counted
				calls += d.Calls
				allowed = allow[number](subject, s.at, s.cost)
			}
		})
		if allowed {
			units += s.cost
			v.each(&s, func(l *stint.Limit, number, subject int) {
				n, _ := v.admitted.Admit(number, subject, s.at, s.at, s.cost, false)
				r.Over = max(r.Over, 100*float64(n-l.Max)/float64(l.Max))
			})
		}
	}
	r.Name, r.Calls = d.Name, 1000*float64(calls)/float64(f.decisions)
	return r, units
}

// ideal is the units that an exact limiter at one place admits, without faults and delays, and with
// the refunds.
func (f *fleet) ideal() (units int64) {
	v := newWatch(f)
	var refunds letters
	for n, s := range f.shots() {
		for len(refunds) > 0 && refunds[0].at <= s.at {
			refunds.pop().do()
		}
		fits := true
		v.each(&s, func(l *stint.Limit, number, subject int) {
			all, _ := v.admitted.Admit(number, subject, s.at, s.at, 0, false)
			fits = fits && all+s.cost <= l.Max
		})
		if !fits {
			continue
		}
		units += s.cost
		v.each(&s, func(_ *stint.Limit, number, subject int) {
			v.admitted.Admit(number, subject, s.at, s.at, s.cost, false)
		})
		if s.settle > 0 && s.truth < s.cost {
			refunds.push(letter{s.at + s.settle, n, func() {
				v.each(&s, func(_ *stint.Limit, number, subject int) {
					v.admitted.Withdraw(number, subject, s.at, s.cost-s.truth, false)
				})
			}})
		}
	}
	return units
}

//go:embed testdata/scale.html
var page string

// report compares with other designs, and writes the outcome to files with the given name and the
// endings .md, .json and .html.
func (f *fleet) report(t *testing.T, o *outcomes, name string) {
	unserved := func(units, ideal int64) float64 { return max(0, 100-100*float64(units)/float64(ideal)) }
	ours := func(name string, o *outcomes, ideal int64) row {
		return row{name, 100 * o.Over, unserved(o.Units, ideal), 1000 * float64(o.Calls) / float64(o.Decisions)}
	}
	calm := fleetOf(f.seed, min(f.decisions, 1_000_000))
	calm.left = map[int]bool{}
	well, ideal := calm.in(t), f.ideal()
	rows := []row{ours("stint, with all faults", o, ideal), ours("stint, without faults", &well, calm.ideal())}
	for _, d := range Designs {
		r, units := f.compare(d)
		r.Unserved = unserved(units, ideal)
		rows = append(rows, r)
	}
	var md strings.Builder
	fmt.Fprintf(&md, "Simulated: %v. Input %s.\n\n%v\n\n", f, f.hash(), o)
	md.WriteString("| Simulated | over-admission in the worst window | demand not served | " +
		"store calls per 1,000 decisions |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&md, "| %s | %.1f%% | %.2f%% | %.0f |\n", r.Name, r.Over, r.Unserved, r.Calls)
	}
	result := map[string]any{"fleet": f.String(), "input": f.hash(), "outcomes": o, "designs": rows}
	data := testkit.Must(json.MarshalIndent(result, "", "  "))(t)
	file := testkit.Must(os.Create(name + ".html"))(t)
	defer file.Close()
	err := template.Must(template.New("").Parse(page)).Execute(file, map[string]any{"Title": f.String(),
		"Result": template.JS(data), "Style": template.CSS(chart.Style), "Script": template.JS(chart.Script)})
	for _, err := range []error{err, os.WriteFile(name+".md", []byte(md.String()), 0o600),
		os.WriteFile(name+".json", data, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shrink makes a fleet that fails as small as it can: it ends with the decision that was wrong, has
// only the requests that share a subject with that if they are enough, and only the faults without
// which it does not fail. Since the scheduler has a say too, each attempt is made a few times.
func (f *fleet) shrink(t *testing.T, o *outcomes) {
	fails := func(g *fleet) bool {
		for range 3 {
			if got := g.in(t); len(got.Wrong) > 0 {
				*o = got
				return true
			}
		}
		return false
	}
	try := func(change func(*fleet)) {
		g := *f
		if change(&g); fails(&g) {
			*f = g
		}
	}
	f.last = max(o.WorstAt, 1)
	try(func(g *fleet) { g.only = &o.Worst })
	left := map[int]bool{}
	for i := range f.plan().drawn {
		left[i] = true
	}
	for size := len(left); size > 0; size /= 2 {
		for from := 0; from < f.plan().drawn; from += size {
			try(func(g *fleet) {
				g.left = map[int]bool{}
				for i := range left {
					g.left[i] = left[i] && (i < from || i >= from+size)
				}
			})
			if f.left != nil {
				left = f.left
			}
		}
	}
}
