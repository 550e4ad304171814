package contest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// worse is the share by which a value may be worse than recorded. A short run reproduces most
// ratios within a tenth.
const worse = 0.2

// unsteady is part of the name of each unsteady bar. In a short run, the value of such a bar may
// differ from the recorded one by more than a fifth, because goroutines contend for a lock.
const unsteady = "goroutines, to"

// Check compares the bars of a report with those recorded in a document: ratios, allocations and
// bytes. It omits times and rates, which depend on the machine, and unsteady bars. It returns the
// values that are worse than recorded by more than a fifth, by the name of the bar.
func (r *Report) Check(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	recorded := recordedBars(string(text))
	drops := map[string]string{}
	compared := 0
	for _, b := range r.bars {
		before, ok := recorded[b.what]
		if !ok || b.rows == 0 || b.unit != "" && b.unit != "×" && b.unit != " B" ||
			strings.Contains(b.what, unsteady) {
			continue
		}
		compared++
		if b.atLeast && b.worst < before*(1-worse) || !b.atLeast && b.worst > before/(1-worse) {
			drops[b.what] = fmt.Sprintf("%s: %s%s, recorded %s%s", b.what, figure(b.worst), b.unit,
				figure(before), b.unit)
		}
	}
	if compared == 0 {
		return nil, fmt.Errorf("%s: contains no bar of this run", path)
	}
	r.Printf("\n%d figures compared with %s: %d worse by more than a fifth.\n", compared, path, len(drops))
	return drops, nil
}

// recordedBars reads the measured values from the table of bars in a document.
func recordedBars(text string) map[string]float64 {
	recorded := map[string]float64{}
	_, table, _ := strings.Cut(text, "\n### Bars\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			continue
		}
		measured := strings.TrimSpace(cells[2])
		end := strings.IndexFunc(measured, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
		if end < 0 {
			end = len(measured)
		}
		if v, err := strconv.ParseFloat(measured[:end], 64); err == nil {
			recorded[strings.TrimSpace(cells[0])] = v
		}
	}
	return recorded
}
