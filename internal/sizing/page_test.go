package sizing

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
)

var update = flag.Bool("update", false, "compute docs/sizing.md again")

// TestPage: the numbers of docs/sizing.md are those of this package. What is between <!--
// sizing:name --> and <!-- end --> is computed.
func TestPage(t *testing.T) {
	const name = "../../docs/sizing.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{
		"costs": costTable(), "carries": carryTable(), "memory": memoryTable(), "leases": leaseTable(),
		"examples": exampleTable(),
	}
	block := regexp.MustCompile(`(?s)<!-- sizing:(\w+) -->\n.*?<!-- end -->`)
	found := 0
	page := block.ReplaceAllStringFunc(string(text), func(old string) string {
		name := block.FindStringSubmatch(old)[1]
		if blocks[name] == "" {
			t.Errorf("nothing computes %q", name)
			return old
		}
		found++
		return "<!-- sizing:" + name + " -->\n" + blocks[name] + "<!-- end -->"
	})
	if found != len(blocks) {
		t.Errorf("the page has %d computed parts, want %d", found, len(blocks))
	}
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Errorf("%s differs (go test ./internal/sizing -update writes it); computed:\n%s", name, page)
	}
}

// table returns a Markdown table. The cells of a row are separated by "|".
func table(rows ...string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(row, "|", " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|---%s|\n", strings.Repeat("|---:", strings.Count(row, "|")))
		}
	}
	return b.String()
}

// rough formats a number with two significant digits, or three from 100 on.
func rough(x float64) string {
	digits := 2.0
	if x >= 100 {
		digits = 3
	}
	if x <= 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))+1-digits)
	x = math.Round(x/unit) * unit
	if x < 10 {
		return strconv.FormatFloat(x, 'f', int(math.Max(0, -math.Round(math.Log10(unit)))), 64)
	}
	text := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// bytes formats a number of bytes.
func bytes(x float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
		if x >= unit.size {
			return rough(x/unit.size) + " " + unit.name
		}
	}
	return rough(x) + " B"
}

func (c Cost) cells() string {
	return fmt.Sprintf("%.1f|%.0f|%.0f|%.0f|%.1f", c.CPU, c.In, c.Out, c.Replicated, c.Client)
}

func costTable() string {
	rows := []string{"|Redis CPU, µs|bytes in|bytes out|replicated|client CPU, µs"}
	for _, w := range Ways {
		rows = append(rows, w.Name+": one window|"+w.One.cells(), w.Name+": three windows|"+w.Three.cells(),
			w.Name+": two subjects, one window each|"+w.Two.cells())
		if w != &Batched256 {
			rows = append(rows, w.Name+": wake|"+w.Wake.cells())
		}
	}
	rows = append(rows, "batched, 256 callers, 100 subjects: one window|"+Hot.cells(),
		"settlement or refund of one window|"+Settled.cells(),
		fmt.Sprintf("leased: one block|%.1f|%.0f|%.0f|%.0f|%.1f per decision", Block.CPU, Block.In, Block.Out,
			Block.Replicated, Block.Client))
	return table(rows...)
}

// of returns the calls of decisions on so many subjects and windows each.
func of(decisions, subjects, windows int64) Calls {
	return Calls{Decisions: decisions, Subjects: decisions * subjects, Windows: decisions * windows}
}

func carryTable() string {
	rows := []string{"|one window|three windows|two subjects|all of a core, one window"}
	for _, w := range Ways {
		carried := func(subjects, windows int64) string {
			return rough(1e6 * Target / w.Need(of(1, subjects, windows)).CPU)
		}
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s|%s", w.Name, carried(1, 1), carried(1, 3), carried(2, 2),
			rough(1e6/w.One.CPU)))
	}
	return table(append(rows, "batched, 256 callers, 100 subjects||||"+rough(1e6/Hot.CPU))...)
}

func memoryTable() string {
	rows := []string{"|1 request|10 requests|50 requests|full windows, computed"}
	for _, m := range Memory {
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s|%s", names(m.Limits), rough(m.One), rough(m.Ten), rough(m.Fifty),
			rough(full(m.Limits))))
	}
	for _, limits := range [][]stint.Limit{
		{stint.PerMinute(1000)}, {stint.PerDay(1_000_000)},
		{stint.PerMinute(100), stint.PerHour(1000), stint.PerDay(10_000)},
	} {
		rows = append(rows, names(limits)+"||||"+rough(full(limits)))
	}
	return table(rows...)
}

func names(limits []stint.Limit) string {
	var texts []string
	for _, l := range limits {
		texts = append(texts, l.String())
	}
	return strings.Join(texts, ", ")
}

// keyLength is that of the keys that were measured.
const keyLength = len("stint:{user:0000001}:limits")

// full returns the bytes of a subject whose windows are full.
func full(limits []stint.Limit) float64 {
	l := NewLayout(limits)
	var s State
	for i := range l.logs {
		s.log(i).step = stepOf(l.logs[i].most)
	}
	return float64(l.bytes(keyLength, &s))
}

// TestMeasuredMemory: the layout takes the memory that was measured.
func TestMeasuredMemory(t *testing.T) {
	for _, m := range Memory {
		l := NewLayout(m.Limits)
		var s State
		usages := make([]stint.Usage, len(m.Limits))
		for n := int64(1); n <= 50; n++ {
			for i := range usages {
				usages[i] = stint.Usage{Used: n, ResetAfter: m.Limits[i].Window}
			}
			s.Charge(l, keyLength, usages, 1, 1e15+n)
			want := map[int64]float64{1: m.One, 10: m.Ten, 50: m.Fifty}[n]
			if got := float64(s.Bytes); want > 0 && math.Abs(got-want) > 0.05*want {
				t.Errorf("%v after %d requests: %v bytes, measured %v", m.Limits, n, got, want)
			}
		}
	}
}

// leaseTable shows from which rate on leases cost Redis less than decisions.
func leaseTable() string {
	rows := []string{"shortest window|a lease lasts|blocks a second|Redis CPU for one subject in one process, ms a second|pays from"}
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
		blocks := Blocks(window)
		cost := blocks * Block.CPU
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s|%s requests a second", figures.Length(window),
			figures.Length(time.Duration(2/blocks*float64(time.Second))), rough(blocks), rough(cost/1e3),
			rough(cost/Plain.Need(of(1, 1, 1)).CPU)))
	}
	return table(rows...)
}

// example is a load of docs/sizing.md.
type example struct {
	name     string
	way      *Way
	calls    Calls
	blocks   float64 // of leases, a second
	leased   float64 // decisions a second from leases
	subjects float64
	each     float64 // bytes of a subject
}

func exampleTable() string {
	tier := Memory[1]
	const million, processes, hot = 1_000_000, 100, 1000
	rows := []string{"|Redis cores at 60 %|shards|to Redis|from Redis|to each replica|memory|cores of all processes"}
	for _, e := range []example{
		{"100 a second, one window, plain", &Plain, of(100, 1, 1), 0, 0, 2000, Memory[0].Ten},
		{"20,000 a second, three windows, plain", &Plain, of(20_000, 1, 3), 0, 0, 200_000, tier.Fifty},
		{"the same, batched, 64 callers", &Batched64, of(20_000, 1, 3), 0, 0, 200_000, tier.Fifty},
		{"a million a second, three windows, Cluster", &Plain, of(million, 1, 3), 0, 0, 10e6, tier.Ten},
		{"the same, nine tenths leased", &Plain, of(million/10, 1, 3), processes * hot * Blocks(time.Minute),
			million * 9 / 10, 10e6, tier.Ten},
	} {
		cost := e.way.Need(e.calls).Plus(e.blocks, Block)
		cost.Client += e.leased*Block.Client - e.blocks*Block.Client
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s/s|%s/s|%s/s|%s|%s", e.name, rough(cost.Cores()),
			strconv.Itoa(int(math.Ceil(cost.Cores()))), bytes(cost.In), bytes(cost.Out), bytes(cost.Replicated),
			bytes(e.subjects*e.each), rough(cost.Client/1e6)))
	}
	return table(rows...)
}
