package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const defaultSlack = 10 * time.Second

const stdinPath = "-"

// Options configures how logs are read. The zero value suits most logs.
type Options struct {
	// Format is the format of all logs. By default, it is detected for each log.
	Format Format
	// Slack is the maximum time by which lines may be out of order. Many servers write a line when
	// a request ends, with the time at which the request began, so a line may come after one with a
	// later time. Lines within the slack are sorted. All other lines are late: they are counted,
	// and get the time of the last record. To sort the lines of a log, a Source holds them for this
	// time, but at most 131,072 of them. The default is 10 seconds. If Slack is negative, it holds
	// no lines.
	Slack time.Duration
	// Stdin is read for the path "-". Close does not close it.
	Stdin io.Reader
}

// Source reads logs, and merges their records by time. Only Close may be called concurrently with
// other methods.
type Source struct {
	inputs  []*input // inputs with records left, sorted with byFirstRecord
	all     []*input // all inputs, in the order of the paths
	stats   Stats
	unsized bool // whether the size of some input is unknown
	err     error
	closed  atomic.Bool
}

// Open opens logs: files, and "-" for [Options.Stdin]. Each may be compressed with gzip or zstd,
// regardless of its name. A log may be empty.
func Open(paths []string, o Options) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("accesslog: no logs; want files, or - for standard input")
	}
	if i := slices.Index(paths, stdinPath); i >= 0 && slices.Contains(paths[i+1:], stdinPath) {
		return nil, errors.New("accesslog: standard input (-) is given twice, but can be read only once")
	}
	if o.Slack == 0 {
		o.Slack = defaultSlack
	}
	s := &Source{}
	for i, path := range paths {
		in := &input{index: i, name: path, format: o.Format, sorter: newSorter(max(o.Slack, 0), maxHeld)}
		if o.Format == nil {
			var err error
			if in.format, err = newDetector(); err != nil {
				return nil, err
			}
		}
		s.all = append(s.all, in)
		err := s.open(in, o.Stdin)
		if err == nil && in.damage != nil && in.line == 0 && len(paths) == 1 {
			err = in.failed(errors.New(in.damageText()))
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	slices.SortFunc(s.inputs, byFirstRecord)
	return s, nil
}

// open opens an input, and reads lines until the first record is known.
func (s *Source) open(in *input, stdin io.Reader) error {
	from := stdin
	switch {
	case in.name != stdinPath:
		file, err := os.Open(in.name)
		if err != nil {
			return in.failed(err)
		}
		in.file, from = file, file
		s.addSize(file)
	case stdin == nil:
		return errors.New("accesslog: no standard input")
	default:
		in.name = "standard input"
		s.unsized = true
	}
	if err := in.start(from); err != nil {
		return err
	}
	if err := s.fill(in); err != nil {
		return err
	}
	if in.sorter.len() > 0 {
		s.inputs = append(s.inputs, in)
	}
	return nil
}

// addSize adds the size of a file to the total. The size of a pipe is unknown.
func (s *Source) addSize(file *os.File) {
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		s.stats.Total += info.Size()
		return
	}
	s.unsized = true
}

// Next reads the next record. It returns io.EOF after the last one, and an error that wraps
// [os.ErrClosed] after Close. Any other error means that a log cannot be read, and is returned by
// all further calls.
func (s *Source) Next(r *Record) error {
	switch {
	case s.closed.Load():
		return fmt.Errorf("accesslog: %w", os.ErrClosed)
	case s.err != nil:
		return s.err
	case len(s.inputs) == 0:
		return io.EOF
	}
	in := s.inputs[0]
	h := in.sorter.remove()
	*r, h.Record = h.Record, *r // swap them, so that both keep their memory
	r.File, r.Line = in.name, h.line
	in.sorter.recycle(h)
	s.stats.Last = r.At
	s.err = s.fill(in)
	s.inputs = slices.Delete(s.inputs, 0, 1)
	if in.sorter.len() == 0 {
		in.release()
		return nil
	}
	i, _ := slices.BinarySearchFunc(s.inputs, in, byFirstRecord)
	s.inputs = slices.Insert(s.inputs, i, in)
	return nil
}

// fill reads lines of an input until its first record is known, or the input ends.
func (s *Source) fill(in *input) error {
	for !in.sorter.ready() {
		line, err := in.next()
		detector, detects := in.format.(*detector)
		if detects && (err == io.EOF || in.line > unknownLines) {
			if unknown := detector.unknown(); unknown != nil {
				return in.failed(unknown)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil && err != tooLong {
			return err
		}
		s.stats.Lines++
		h := in.sorter.empty()
		if err == nil {
			err = in.format.Parse(line, &h.Record)
		}
		if err != nil {
			in.sorter.recycle(h)
			s.stats.addMalformed(in, line, err)
			continue
		}
		h.line = in.line
		if in.sorter.add(h) {
			s.stats.Late++
		}
	}
	return nil
}

// Stats returns statistics on what has been read so far.
func (s *Source) Stats() Stats {
	stats := s.stats
	stats.Examples = slices.Clone(stats.Examples)
	for _, in := range s.all {
		stats.Read += in.raw.n
		if in.damage != nil {
			stats.Damaged = append(stats.Damaged, Damage{in.name, in.line, in.damageText()})
		}
	}
	if s.unsized {
		stats.Total = 0
	}
	return stats
}

// Close closes the files. It may be called more than once. A call to Next that is in progress may
// return an error.
func (s *Source) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, in := range s.all {
		if in.file != nil {
			errs = append(errs, in.file.Close())
		}
	}
	return errors.Join(errs...)
}

// byFirstRecord orders inputs by the time of their first records, and then by the order of their
// paths.
func byFirstRecord(a, b *input) int {
	return cmp.Or(cmp.Compare(a.sorter.first().At, b.sorter.first().At), cmp.Compare(a.index, b.index))
}

// Stats holds statistics on what has been read.
type Stats struct {
	// Lines is the number of lines that are not empty. Malformed counts those that could not be
	// read. Late counts those that were too far out of order; see [Options.Slack].
	Lines, Malformed, Late int64
	// Examples holds up to five malformed lines.
	Examples []Malformed
	// Damaged lists the logs whose compressed data could not be read to the end. The lines before
	// the damage were read.
	Damaged []Damage
	// Read is the number of bytes read, before decompression. Total is the size of all logs, or 0
	// if it is unknown, as for standard input.
	Read, Total int64
	// Last is the time of the last record that Next returned, in Unix nanoseconds; 0 before the
	// first.
	Last int64
}

// Malformed describes a line that could not be read.
type Malformed struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Text   string `json:"text"` // a part of the line, unchanged
	Reason string `json:"reason"`
}

// Damage describes a log whose compressed data could not be read to its end.
type Damage struct {
	File   string `json:"file"`
	Lines  int64  `json:"lines"` // number of lines that could be read
	Reason string `json:"reason"`
}

// maxExamples is the maximum number of examples of malformed lines. maxAlike is the maximum number
// of examples with the same reason.
const (
	maxExamples = 5
	maxAlike    = 2
)

func (s *Stats) addMalformed(in *input, line []byte, err error) {
	s.Malformed++
	if len(s.Examples) == maxExamples {
		return
	}
	text, alike := reasonText(err), 0
	for _, m := range s.Examples {
		if m.Reason == text {
			alike++
		}
	}
	if alike < maxAlike {
		s.Examples = append(s.Examples, Malformed{in.name, in.line, excerpt(line), text})
	}
}
