package observe

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
)

// Each process writes two rows to the table fleetTable: its counts every few seconds and, less
// often, its facts, which need more space. All counts are totals since the process started, so a
// reader that misses a report loses no counts.

const (
	// recordVersion is the first byte of every row with counts or facts. A row with another version
	// is ignored.
	recordVersion = 2
	// factsSuffix is the end of the name of a row with facts.
	factsSuffix = "/facts"

	// worstBytes, topBytes and shadowBytes are maximum sizes in bytes. worstBytes limits the list
	// of subjects with the most denials in the last seconds, and topBytes limits the list for the
	// last minutes. A shadow report omits the subjects that do not fit into shadowBytes. With these
	// sizes, a process with one rule writes at most 100 bytes per second.
	worstBytes, topBytes, shadowBytes = 56, 120, 160
	// topSubjects is the maximum number of subjects in a list.
	topSubjects = 10
	// maxRecord is the maximum size of a row in bytes; larger rows are ignored.
	maxRecord = 1 << 20
)

// countsRecord holds the counts of a process.
type countsRecord struct {
	seq     int64 // the number of this report
	at      int64 // when it was written, in Unix seconds
	storeUp bool
	point   Point    // its Counts are the sums over all series except outbound ones
	series  []Counts // in the order of the series in the facts
	worst   []listed
}

// factsRecord has the names of the series in the counts, and other facts about a process.
type factsRecord struct {
	started int64 // in Unix seconds
	name    string
	config  string   // the fingerprint of the current configuration
	alerts  []string // names of firing alerts
	series  []seriesName
	top     []listed
	shadow  []shadowFacts
}

// listed is a subject in one of the lists of subjects that a process reports. Its name is the name
// that the store uses.
type listed struct {
	kind            int
	name, policy    string
	denied, atLeast int64
	// rate is in requests per second.
	rate, share float64
}

// shadowFacts is a shadow report.
type shadowFacts struct {
	tier, policy  string
	limits        []string
	since         int64
	seconds       int64 // the length of the period that recent covers
	total, recent ShadowCounts
	minutes       []ShadowCounts // requests and denials only
	top           []listed
}

// encoder appends numbers and strings to a row.
type encoder []byte

func (e *encoder) int(n int64)      { *e = binary.AppendUvarint(*e, uint64(max(n, 0))) }
func (e *encoder) flag(b bool)      { e.int(int64(truth(b))) }
func (e *encoder) micro(s float64)  { e.int(int64(math.Round(s * 1e6))) }
func (e *encoder) text(s string)    { e.int(int64(len(s))); *e = append(*e, s...) }
func (e *encoder) texts(s []string) { e.text(strings.Join(s, "\x00")) }

func (e *encoder) counts(c Counts) {
	for _, n := range [...]int64{c.Allowed, c.Denied, c.Degraded, c.Failed, c.Shadowed} {
		e.int(n)
	}
}

// list appends the first subjects in all, up to topSubjects, as long as they fit into room bytes.
// The function one encodes a subject.
func (e *encoder) list(all []listed, room int, one func(*encoder, *listed)) {
	var some encoder
	n := 0
	for i := range all[:min(len(all), topSubjects)] {
		before := len(some)
		if one(&some, &all[i]); len(some) > room {
			some = some[:before]
			break
		}
		n++
	}
	e.int(int64(n))
	*e = append(*e, some...)
}

func (r *countsRecord) encode() string {
	e := encoder{recordVersion}
	e.int(r.seq)
	e.int(r.at)
	e.flag(r.storeUp)
	for _, n := range [...]int64{r.point.Saved, r.point.Calls, r.point.CallsFailed, r.point.Carried} {
		e.int(n)
	}
	for _, s := range [...]float64{r.point.P50, r.point.P99, r.point.StoreP50, r.point.StoreP99} {
		e.micro(s)
	}
	e.int(int64(len(r.series)))
	for _, c := range r.series {
		e.counts(c)
	}
	e.list(r.worst, worstBytes, func(e *encoder, l *listed) {
		e.int(int64(l.kind))
		e.text(l.name)
		e.int(int64(math.Round(l.rate * 10)))
		e.int(int64(math.Round(l.share * 100)))
	})
	return string(e)
}

func (r *factsRecord) encode() string {
	e := encoder{recordVersion}
	e.int(r.started)
	e.text(r.name)
	e.text(r.config)
	e.texts(r.alerts)
	e.int(int64(len(r.series)))
	for _, s := range r.series {
		e.text(s.tier)
		e.text(s.policy)
		e.flag(s.outbound)
	}
	e.list(r.top, topBytes, func(e *encoder, l *listed) {
		e.int(int64(l.kind))
		e.text(l.name)
		e.text(l.policy)
		e.int(l.denied)
		e.int(l.atLeast)
	})
	e.int(int64(len(r.shadow)))
	for i := range r.shadow {
		r.shadow[i].encode(&e)
	}
	return string(e)
}

func (s *shadowFacts) encode(e *encoder) {
	before := len(*e)
	e.text(s.tier)
	e.text(s.policy)
	e.texts(s.limits)
	e.int(s.since)
	e.int(s.seconds)
	for _, c := range [...]*ShadowCounts{&s.total, &s.recent} {
		for _, n := range [...]int64{c.Requests, c.Denied, c.Subjects, c.Hit} {
			e.int(n)
		}
	}
	e.int(int64(len(s.minutes)))
	for _, m := range s.minutes {
		e.int(m.Requests)
		e.int(m.Denied)
	}
	e.list(s.top, shadowBytes-(len(*e)-before), func(e *encoder, l *listed) {
		e.int(int64(l.kind))
		e.text(l.name)
		e.int(l.denied)
		e.int(l.atLeast)
	})
}

var errRecord = errors.New("observe: malformed report of another process")

// decoder reads a row that an encoder has written. After an error it returns zero values.
type decoder struct {
	rest string
	err  error
}

func newDecoder(text string) *decoder {
	d := &decoder{rest: text}
	if len(text) == 0 || len(text) > maxRecord || text[0] != recordVersion {
		d.err = errRecord
		return d
	}
	d.rest = text[1:]
	return d
}

func (d *decoder) int() int64 {
	n, size := binary.Uvarint([]byte(d.rest[:min(len(d.rest), binary.MaxVarintLen64)]))
	if d.err != nil || size <= 0 || n > math.MaxInt64/2 {
		d.err = errRecord
		return 0
	}
	d.rest = d.rest[size:]
	return int64(n)
}

// count reads the length of a list. It rejects lengths above the number of bytes left, because each
// element takes at least one byte.
func (d *decoder) count() int {
	n := d.int()
	if n > int64(len(d.rest)) {
		d.err = errRecord
		return 0
	}
	return int(n)
}

func (d *decoder) flag() bool     { return d.int() != 0 }
func (d *decoder) micro() float64 { return float64(d.int()) / 1e6 }

func (d *decoder) text() string {
	n := d.count()
	text := strings.Clone(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) texts() []string {
	text := d.text()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

func (d *decoder) kind() int {
	kind := d.int()
	if kind >= int64(len(offenderKinds)) {
		d.err = errRecord
		return 0
	}
	return int(kind)
}

func (d *decoder) counts() Counts {
	return Counts{Allowed: d.int(), Denied: d.int(), Degraded: d.int(), Failed: d.int(), Shadowed: d.int()}
}

// list reads a list of subjects. The function one reads the fields after kind and name.
func (d *decoder) list(one func(*listed)) []listed {
	list := make([]listed, min(d.count(), topSubjects))
	for i := range list {
		list[i].kind, list[i].name = d.kind(), d.text()
		one(&list[i])
	}
	return list
}

func decodeCounts(text string) (countsRecord, error) {
	d := newDecoder(text)
	r := countsRecord{seq: d.int(), at: d.int(), storeUp: d.flag()}
	r.point = Point{Saved: d.int(), Calls: d.int(), CallsFailed: d.int(), Carried: d.int(),
		P50: d.micro(), P99: d.micro(), StoreP50: d.micro(), StoreP99: d.micro()}
	r.series = make([]Counts, min(d.count(), maxSeries+2))
	for i := range r.series {
		r.series[i] = d.counts()
	}
	r.worst = d.list(func(l *listed) { l.rate, l.share = float64(d.int())/10, float64(d.int())/100 })
	return r, d.err
}

func decodeFacts(text string) (factsRecord, error) {
	d := newDecoder(text)
	r := factsRecord{started: d.int(), name: d.text(), config: d.text(), alerts: d.texts()}
	r.series = make([]seriesName, min(d.count(), maxSeries+2))
	for i := range r.series {
		r.series[i] = seriesName{tier: clean(d.text()), policy: clean(d.text()), outbound: d.flag()}
	}
	r.top = d.list(func(l *listed) { l.policy, l.denied, l.atLeast = d.text(), d.int(), d.int() })
	r.shadow = make([]shadowFacts, min(d.count(), maxShadowReports))
	for i := range r.shadow {
		r.shadow[i] = d.shadow()
	}
	return r, d.err
}

func (d *decoder) shadow() shadowFacts {
	s := shadowFacts{tier: d.text(), policy: d.text(), limits: d.texts(), since: d.int(), seconds: d.int()}
	for _, c := range [...]*ShadowCounts{&s.total, &s.recent} {
		*c = ShadowCounts{Requests: d.int(), Denied: d.int(), Subjects: d.int(), Hit: d.int()}
	}
	s.minutes = make([]ShadowCounts, min(d.count(), shadowMinutes))
	for i := range s.minutes {
		s.minutes[i] = ShadowCounts{Requests: d.int(), Denied: d.int()}
	}
	s.top = d.list(func(l *listed) { l.denied, l.atLeast = d.int(), d.int() })
	return s
}

func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
