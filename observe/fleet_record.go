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
	// recordVersion is the first byte of every row with counts or facts. A row with a different
	// version is ignored.
	recordVersion = 2
	// factsSuffix is the end of the name of a row with facts.
	factsSuffix = "/facts"

	// worstBytes, topBytes and shadowBytes are maximum sizes in bytes. worstBytes limits the list
	// of subjects with the most denials in the last ten seconds, and topBytes limits the list for
	// the last few minutes. A shadow report omits the subjects that do not fit into shadowBytes.
	// With these sizes, a process with one rule writes at most 100 bytes per second.
	worstBytes, topBytes, shadowBytes = 56, 120, 160
	// topSubjects is the maximum number of subjects in a list.
	topSubjects = 10
	// maxRecord is the maximum size of a row in bytes; larger rows are ignored.
	maxRecord = 1 << 20
)

type countsRecord struct {
	seq     int64 // the number of this report
	at      int64 // when it was written, in Unix seconds
	storeUp bool
	point   Point    // its Counts are the sums over all series except outbound ones
	series  []Counts // in the order of the series in the facts
	worst   []listed
}

// factsRecord holds the names of the series in the counts, and other facts about a process.
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

// shadowFacts is a shadow report in the facts of a process. Its strings are not escaped. Its
// minutes have only requests and denials. Its subjects are in top instead of Top.
type shadowFacts struct {
	ShadowReport
	top []listed
}

// fleetRecord is implemented by countsRecord and factsRecord. Its method, code, passes each field
// of the record to a codec, in the order of the row.
type fleetRecord interface{ code(*codec) }

func encode(r fleetRecord) string {
	c := &codec{row: []byte{recordVersion}}
	r.code(c)
	return string(c.row)
}

var errRecord = errors.New("observe: malformed report of another process")

// decode reads a row into an empty record.
func decode(row string, into fleetRecord) error {
	if row == "" || len(row) > maxRecord || row[0] != recordVersion {
		return errRecord
	}
	c := &codec{row: []byte(row[1:]), reading: true}
	into.code(c)
	return c.err
}

func (r *countsRecord) code(c *codec) {
	c.ints(&r.seq, &r.at)
	c.flag(&r.storeUp)
	p := &r.point
	c.ints(&p.Saved, &p.Calls, &p.CallsFailed, &p.Carried)
	c.scaled(1e6, &p.P50, &p.P99, &p.StoreP50, &p.StoreP99)
	codeAll(c, &r.series, maxSeries+2, func(n *Counts) {
		c.ints(&n.Allowed, &n.Denied, &n.Degraded, &n.Failed, &n.Shadowed)
	})
	c.subjects(&r.worst, worstBytes, func(l *listed) {
		c.scaled(10, &l.rate)
		c.scaled(100, &l.share)
	})
}

func (r *factsRecord) code(c *codec) {
	c.ints(&r.started)
	c.text(&r.name)
	c.text(&r.config)
	c.texts(&r.alerts)
	codeAll(c, &r.series, maxSeries+2, func(s *seriesName) {
		c.text(&s.tier)
		c.text(&s.policy)
		s.tier, s.policy = clean(s.tier), clean(s.policy)
		c.flag(&s.outbound)
	})
	c.subjects(&r.top, topBytes, func(l *listed) {
		c.text(&l.policy)
		c.ints(&l.denied, &l.atLeast)
	})
	codeAll(c, &r.shadow, maxShadowReports, func(s *shadowFacts) { s.code(c) })
}

func (s *shadowFacts) code(c *codec) {
	before := len(c.row)
	c.text(&s.Tier)
	c.text(&s.Policy)
	c.texts(&s.Limits)
	since := s.Since.Unix()
	c.ints(&since)
	s.Since = unixTime(since)
	c.scaled(1, &s.RecentSeconds)
	for _, n := range [...]*ShadowCounts{&s.Total, &s.Recent} {
		c.ints(&n.Requests, &n.Denied, &n.Subjects, &n.Hit)
	}
	codeAll(c, &s.Minutes, shadowMinutes, func(n *ShadowCounts) { c.ints(&n.Requests, &n.Denied) })
	c.subjects(&s.top, shadowBytes-(len(c.row)-before), func(l *listed) { c.ints(&l.denied, &l.atLeast) })
}

// codec encodes the fields of a record into a row, or decodes them from a row. When it encodes a
// field, it also rounds the field to the value in the row. After an error, it decodes zero values.
type codec struct {
	row     []byte // the part already written, or the part still to be read
	reading bool
	err     error
}

func (c *codec) ints(numbers ...*int64) {
	for _, n := range numbers {
		if !c.reading {
			c.row = binary.AppendUvarint(c.row, uint64(max(*n, 0)))
			continue
		}
		got, size := binary.Uvarint(c.row)
		if c.err != nil || size <= 0 || got > math.MaxInt64/2 {
			*n, c.err = 0, errRecord
			continue
		}
		*n, c.row = int64(got), c.row[size:]
	}
}

// scaled encodes or decodes numbers as multiples of 1/scale.
func (c *codec) scaled(scale float64, numbers ...*float64) {
	for _, x := range numbers {
		n := int64(math.Round(*x * scale))
		c.ints(&n)
		*x = float64(n) / scale
	}
}

func (c *codec) flag(b *bool) {
	n := int64(truth(*b))
	c.ints(&n)
	*b = n != 0
}

// length encodes or decodes the length of a string or list. When decoding, it rejects lengths above
// the number of bytes left, because each element takes at least one byte.
func (c *codec) length(length int) int {
	n := int64(length)
	c.ints(&n)
	if c.reading && n > int64(len(c.row)) {
		c.err = errRecord
		return 0
	}
	return int(n)
}

func (c *codec) text(s *string) {
	n := c.length(len(*s))
	if !c.reading {
		c.row = append(c.row, *s...)
		return
	}
	*s, c.row = string(c.row[:n]), c.row[n:]
}

func (c *codec) texts(list *[]string) {
	text := strings.Join(*list, "\x00")
	c.text(&text)
	if c.reading && text != "" {
		*list = strings.Split(text, "\x00")
	}
}

// codeAll encodes or decodes a list. The function one encodes or decodes an element. When decoding,
// codeAll rejects lists with more than maxLength elements.
func codeAll[T any](c *codec, list *[]T, maxLength int, one func(*T)) {
	n := c.length(len(*list))
	if c.reading {
		if n > maxLength {
			n, c.err = 0, errRecord
		}
		*list = make([]T, n)
	}
	for i := range *list {
		one(&(*list)[i])
	}
}

// subjects encodes or decodes a list of subjects. The function rest encodes or decodes the fields
// of a subject that follow kind and name. When encoding, only the first subjects of the list are
// written: at most topSubjects, and only as many as fit into room bytes.
func (c *codec) subjects(list *[]listed, room int, rest func(*listed)) {
	one := func(l *listed) {
		c.kind(&l.kind)
		c.text(&l.name)
		rest(l)
	}
	if c.reading {
		codeAll(c, list, topSubjects, one)
		return
	}
	count := len(c.row)
	c.row = append(c.row, 0) // the number of subjects, always one byte
	for i := range (*list)[:min(len(*list), topSubjects)] {
		before := len(c.row)
		if one(&(*list)[i]); len(c.row)-count-1 > room {
			c.row = c.row[:before]
			break
		}
		c.row[count]++
	}
}

func (c *codec) kind(kind *int) {
	n := int64(*kind)
	c.ints(&n)
	if n >= int64(len(offenderKinds)) {
		n, c.err = 0, errRecord
	}
	*kind = int(n)
}

func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
