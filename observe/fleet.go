package observe

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/label"
)

const (
	// fleetTable is the name of the table in the store that holds the reports of all processes.
	fleetTable = "fleet"
	// reportEvery is the interval at which a process writes its report and reads the other processes'
	// reports. Once every factsEvery reports, it also writes its facts. reportTime is the timeout of a
	// report.
	reportEvery = 2 * time.Second
	factsEvery  = 6
	reportTime  = 1500 * time.Millisecond
	// crowd is the largest number of processes that report at the interval reportEvery. If there
	// are more, each process reports less often. Otherwise the number of rows that all processes
	// read per second would grow with the square of the number of processes.
	crowd = 50
	// forgetAfter is the time after which a silent process is removed. It is removed earlier if
	// another process replaces it.
	forgetAfter = 10 * time.Minute
	// maxProcesses is the maximum number of other processes that a process follows.
	maxProcesses = 1000
	// fewReports is the largest number of reports of a process that counts as newly started.
	fewReports = 2
)

// Process is one of the processes that share a store.
type Process struct {
	// Name is the instance name and the process id, such as "web-1/4711".
	Name string `json:"name"`
	// Self marks the process that returned this list.
	Self bool `json:"self,omitempty"`
	// Started is the time at which the process began to share its counts. Heard is the time of its
	// last report. Silent reports whether the next report is overdue, because the process hangs, was
	// killed, or cannot reach the store.
	Started time.Time `json:"started,omitzero"`
	Heard   time.Time `json:"heard"`
	Silent  bool      `json:"silent,omitempty"`
	// Decisions, Denied and Degraded are rates per second over the last few seconds.
	Decisions float64 `json:"decisions_per_second"`
	Denied    float64 `json:"denied_per_second"`
	Degraded  float64 `json:"degraded_per_second"`
	// P99 is the 99th percentile of the duration of decisions, in seconds.
	P99 float64 `json:"p99_seconds"`
	// Total counts the decisions since the process started.
	Total   Counts `json:"total"`
	StoreUp bool   `json:"store_up"`
	// Alerts are the names of the firing alerts.
	Alerts []string `json:"alerts,omitempty"`
	// Config is the fingerprint of the current configuration, such as "policies 3fa9c1d2". It is ""
	// if no files were read.
	Config string `json:"config,omitempty"`
}

// Share makes the monitor share its counts with the monitors of other processes, through a table in
// the store, until leave is called. The store must stay open until leave has returned. After Share,
// [Monitor.Status], [Monitor.History], [Monitor.Top], [Monitor.ShadowReports] and ticks cover all
// processes together, and [Tick.Processes] lists them. Violations, metrics and most alerts still
// cover only this process.
//
// The process writes every two seconds in the background, or less often if there are more than 50
// processes. It writes about 100 bytes per second for each rule. If a process stops reporting, one
// of the others raises the alert ProcessSilent. If the configurations of processes differ, one of
// them raises the alert ConfigDiffers. Share may be called only once.
func (m *Monitor) Share(store driver.Keeper) (leave func()) {
	f := newFleet(m, store)
	m.fleet.Store(f)
	life, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { f.run(life) })
	return func() {
		stop()
		ended.Wait()
	}
}

// fleet tracks the processes that share a store. It is safe for concurrent use.
type fleet struct {
	m       *Monitor
	store   driver.Keeper
	id      string
	name    string
	started time.Time
	history *history // history of all processes together

	// Only the reporting goroutine uses the following fields.
	version int64
	seq     int64
	news    string // summary of the last facts; if it changes, new facts are written at once

	asking asking

	mu       sync.Mutex
	peers    map[string]*peer
	reading  time.Time // when the reports of other processes became readable; zero if they are not
	lastRead time.Time
	whole    sums
}

// peer is another process.
type peer struct {
	counts countsRecord // the last counts, already included in the sums
	facts  factsRecord
	heard  time.Time
	rate   struct{ decisions, denied, degraded float64 }
}

// counted reports whether the process has reported counts.
func (p *peer) counted() bool { return p.counts.seq != 0 }

func newFleet(m *Monitor, store driver.Keeper) *fleet {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return &fleet{
		m: m, store: store, id: hex.EncodeToString(id[:]), started: time.Now(), history: newHistory(),
		name:  fmt.Sprintf("%s/%d", m.alerts.instance, os.Getpid()),
		peers: map[string]*peer{}, whole: sums{index: map[seriesName]int{}},
		asking: asking{wake: make(chan struct{}, 1)},
	}
}

// run writes reports until the context is canceled, then removes the rows of this process.
func (f *fleet) run(life context.Context) {
	for {
		if err := f.report(life); errors.Is(err, errors.ErrUnsupported) {
			return
		}
		select {
		case <-time.After(f.every()):
		case <-f.asking.wake:
		case <-life.Done():
			ctx, cancel := context.WithTimeout(context.Background(), reportTime)
			defer cancel()
			_, _ = f.store.Keep(ctx, fleetTable, removed(f.id), f.version, false) // on failure, this process counts as silent
			return
		}
	}
}

// removed returns rows without text. Writing them removes the counts, the facts and the question of
// a process.
func removed(id string) []driver.Row {
	return []driver.Row{{Name: id}, {Name: id + factsSuffix}, {Name: id + askSuffix}}
}

func (f *fleet) every() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking.open != nil {
		return askEvery
	}
	return f.pace()
}

func (f *fleet) pace() time.Duration {
	return reportEvery * time.Duration(max(crowd, len(f.peers)+1)) / crowd
}

func (f *fleet) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	rows := slices.Concat(f.rows(time.Now()), f.forget(), f.askRows())
	version, err := f.store.Keep(ctx, fleetTable, rows, f.version, false)
	var changed []driver.Row
	which := driver.RowsChanged
	if err == nil {
		f.version = version
		version, which, err = f.store.Kept(ctx, fleetTable, f.version, func(r driver.Row) {
			changed = append(changed, r)
		})
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reading = time.Time{}
		return err
	}
	f.version = version
	f.reply(ctx, f.read(changed, which, time.Now()))
	return nil
}

// rows returns the rows of this process: its counts and, if they have changed or are due, its
// facts.
func (f *fleet) rows(now time.Time) []driver.Row {
	t := f.m.totals()
	f.seq++
	counts := countsRecord{seq: f.seq, at: now.Unix(), storeUp: f.m.watch.health().Up, point: t.Point,
		worst: f.ownWorst(now)}
	for _, s := range t.series {
		counts.series = append(counts.series, s.Total)
	}
	if last := f.m.history.points(fine); len(last) > 0 {
		counts.point.lengthen(&last[len(last)-1])
	}
	rows := []driver.Row{{Name: f.id, Text: encode(&counts)}}
	alerts, config := f.m.firing(), f.m.fingerprint()
	news := fmt.Sprint(len(t.names), alerts, config)
	if f.seq%factsEvery == 1 || news != f.news {
		f.news = news
		facts := factsRecord{started: f.started.Unix(), name: f.name, config: config, alerts: alerts, series: t.names,
			top: f.ownTop(now), shadow: f.ownShadow(now)}
		rows = append(rows, driver.Row{Name: f.id + factsSuffix, Text: encode(&facts)})
	}
	return rows
}

func (m *Monitor) firing() (names []string) {
	for _, a := range *m.lastAlerts.Load() {
		if a.State == alertFiring {
			names = append(names, a.Name)
		}
	}
	return names
}

// read applies rows of the table to f. It returns the questions of other processes.
func (f *fleet) read(rows []driver.Row, which driver.Rows, now time.Time) (questions []asked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading.IsZero() {
		f.reading = now
	}
	f.lastRead = now
	present := map[string]bool{}
	for _, r := range rows { // facts first, because they name the series of the counts
		var facts factsRecord
		if id, ok := strings.CutSuffix(r.Name, factsSuffix); ok && id != f.id && decode(r.Text, &facts) == nil {
			f.takeFacts(id, facts, now)
		}
	}
	for _, r := range rows {
		if strings.HasSuffix(r.Name, factsSuffix) || r.Name == f.id {
			continue
		}
		if strings.Contains(r.Name, "/") {
			if q, ok := f.take(r); ok {
				questions = append(questions, q)
			}
			continue
		}
		present[r.Name] = true
		var counts countsRecord
		err := decode(r.Text, &counts)
		switch p := f.peers[r.Name]; {
		case r.Text == "":
			delete(f.peers, r.Name) // the process has left
		case err == nil && p != nil && !p.counted() && now.Sub(unixTime(counts.at)) > forgetAfter:
			delete(f.peers, r.Name) // the process has been gone for a long time
		case err == nil && p != nil && counts.seq != p.counts.seq:
			f.takeCounts(p, &counts, now)
		}
	}
	switch which {
	case driver.RowsLeft:
		f.news = "" // so that this process writes its facts again
	case driver.RowsAll:
		maps.DeleteFunc(f.peers, func(id string, _ *peer) bool { return !present[id] })
	}
	return questions
}

func (f *fleet) takeFacts(id string, facts factsRecord, now time.Time) {
	p := f.peers[id]
	if p == nil {
		if len(f.peers) >= maxProcesses {
			return
		}
		p = &peer{heard: now}
		f.peers[id] = p
	}
	p.facts = facts
}

// takeCounts stores the counts of a process and adds them to the sums.
func (f *fleet) takeCounts(p *peer, counts *countsRecord, now time.Time) {
	n := min(len(counts.series), len(p.facts.series))
	counts.series = counts.series[:n]
	for i, c := range counts.series {
		if !p.facts.series[i].outbound {
			counts.point.Counts = counts.point.Counts.combine(c, plus)
		}
	}
	if seconds := now.Sub(p.heard).Seconds(); p.counted() && seconds > 0 {
		since := counts.point.Counts.combine(p.counts.point.Counts, minus)
		p.rate.decisions = float64(since.decisions()) / seconds
		p.rate.denied, p.rate.degraded = float64(since.Denied)/seconds, float64(since.Degraded)/seconds
	}
	pace := f.pace()
	// timed is false for reports that may cover a long time: the first report after an outage, and
	// the first report read from a process that has run for a while.
	timed := p.counted() && now.Sub(p.heard) <= 3*pace || counts.seq <= fewReports
	before := f.whole.add(p, counts, timed, int64(pace/time.Second))
	if before != nil {
		f.history.rebase(before.Point, before.series)
	}
	p.counts, p.heard = *counts, now
}

// forget removes the processes that have been silent for longer than forgetAfter or have been
// replaced. It returns rows that remove them from the table.
func (f *fleet) forget() (rows []driver.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	replaced := f.replaced()
	for id, p := range f.peers {
		if f.silence(p) > forgetAfter || replaced[p] {
			delete(f.peers, id)
			rows = append(rows, removed(id)...)
		}
	}
	return rows
}

// replaced returns the silent processes that another process has replaced. Each process that is not
// silent replaces at most one silent process, and only if the silent process last reported before
// the other one started. The caller holds the lock.
func (f *fleet) replaced() map[*peer]bool {
	var silent []*peer
	started := []int64{f.started.Unix()}
	for _, p := range f.peers {
		if f.isSilent(p) {
			silent = append(silent, p)
		} else {
			started = append(started, p.facts.started)
		}
	}
	slices.SortFunc(silent, func(a, b *peer) int { return cmp.Compare(b.counts.at, a.counts.at) }) // the most recent report first
	slices.Sort(started)
	replaced := map[*peer]bool{}
	for _, p := range silent {
		if n := len(started); n > 0 && started[n-1] > p.counts.at {
			replaced[p], started = true, started[:n-1]
		}
	}
	return replaced
}

// silence returns the time for which a process has not reported although its reports were readable.
// The time since the last read does not count, because this process itself may have been suspended.
func (f *fleet) silence(p *peer) time.Duration {
	if f.reading.IsZero() {
		return 0
	}
	since := p.heard
	if f.reading.After(since) {
		since = f.reading
	}
	return f.lastRead.Sub(since)
}

// isSilent reports whether a process has missed at least two reports.
func (f *fleet) isSilent(p *peer) bool { return f.silence(p) > f.pace()*5/2 }

// each calls do(p) for every process p that is not silent, except this process. The caller holds
// the lock.
func (f *fleet) each(do func(*peer)) {
	for _, id := range slices.Sorted(maps.Keys(f.peers)) {
		if p := f.peers[id]; !f.isSilent(p) {
			do(p)
		}
	}
}

// processes returns all processes, this one first.
func (f *fleet) processes(now time.Time) []Process {
	own := Process{Name: label.Line(f.name), Self: true, Started: f.started, Heard: now, StoreUp: f.m.watch.health().Up,
		Config: f.m.fingerprint()}
	const lately = 5 * time.Second
	if sum, seconds := f.m.history.sum(lately); seconds > 0 {
		own.Decisions, own.Denied = float64(sum.decisions())/float64(seconds), float64(sum.Denied)/float64(seconds)
		own.Degraded = float64(sum.Degraded) / float64(seconds)
	}
	if points := f.m.history.points(fine); len(points) > 0 {
		own.P99 = points[len(points)-1].P99
	}
	own.Total, own.Alerts = f.m.totals().Counts, f.m.firing()
	f.mu.Lock()
	defer f.mu.Unlock()
	var others []Process
	for _, p := range f.peers {
		o := Process{Name: label.Line(p.facts.name), Started: unixTime(p.facts.started), Heard: p.heard,
			Silent: f.isSilent(p), Total: p.counts.point.Counts, Config: label.Line(p.facts.config)}
		if !o.Silent {
			o.Decisions, o.Denied, o.Degraded = p.rate.decisions, p.rate.denied, p.rate.degraded
			o.P99, o.StoreUp, o.Alerts = p.counts.point.P99, p.counts.storeUp, label.Lines(p.facts.alerts)
		}
		others = append(others, o)
	}
	slices.SortFunc(others, func(a, b Process) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started))
	})
	return append([]Process{own}, others...)
}
