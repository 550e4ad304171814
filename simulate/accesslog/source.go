package accesslog

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// DefaultSlack is that of Options.
const DefaultSlack = 10 * time.Second

// stdinName is what stands for standard input among paths.
const stdinName = "-"

// Options say how logs are read. The zero Options are good for most.
type Options struct {
	// Format is that of all logs. By default each log's is told by its first lines.
	Format Format
	// Slack is how much later than a later one a line may stand in its log: servers write a line when a request is
	// over, with the time at which it began. Such lines are put into order. Those that are out by more are late:
	// they are counted, and returned with the time that has been reached. Lines are held for so long, of each log,
	// but no more than 131,072 of them. The default is [DefaultSlack]; a negative one means that no line is held.
	Slack time.Duration
	// Stdin is what "-" stands for among the paths. Close leaves it open.
	Stdin io.Reader
}

// Source reads logs, merged by time. It is for one goroutine, but for Close.
type Source struct {
	inputs  merge    // that have records left, the earliest first
	all     []*input // in the order given
	stats   Stats
	unsized bool  // how much there is to read is not known
	err     error // of reading
	closed  atomic.Bool
}

// Open opens logs: files, and "-" for [Options.Stdin]. Each may be compressed with gzip or zstd, whatever it is
// called. An empty log is as good as any.
func Open(paths []string, o Options) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("accesslog: no logs; want files, or - for standard input")
	}
	if i := slices.Index(paths, stdinName); i >= 0 && slices.Contains(paths[i+1:], stdinName) {
		return nil, errors.New("accesslog: standard input (-) is named twice; want it once")
	}
	if o.Slack == 0 {
		o.Slack = DefaultSlack
	}
	s := &Source{}
	for i, path := range paths {
		in := &input{place: i, name: path, format: o.Format, window: newWindow(max(o.Slack, 0), maxHeld)}
		s.all = append(s.all, in)
		if err := s.open(in, o.Stdin); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	heap.Init(&s.inputs)
	return s, nil
}

// open opens one log and reads as much of it as shows its first record.
func (s *Source) open(in *input, stdin io.Reader) error {
	from := stdin
	switch {
	case in.name != stdinName:
		file, err := os.Open(in.name)
		if err != nil {
			return in.failed(err)
		}
		in.file, from = file, file
		s.addSize(file)
	case stdin == nil:
		return errors.New("accesslog: there is no standard input to read")
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
	if in.window.len() > 0 {
		s.inputs = append(s.inputs, in)
	}
	return nil
}

// addSize adds the size of a file to the total, if it has one: a pipe has none.
func (s *Source) addSize(file *os.File) {
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		s.stats.Total += info.Size()
		return
	}
	s.unsized = true
}

// Next reads the next record. It returns io.EOF after the last one, and an error that is [os.ErrClosed] after Close.
// Any other error is that of a log that cannot be read on, and Next goes on returning it.
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
	h := in.window.remove()
	*r, h.Record = h.Record, *r // each with its memory
	in.window.drop(h)
	if s.stats.First == 0 {
		s.stats.First = r.At
	}
	s.stats.Last = r.At
	s.err = s.fill(in)
	if in.window.len() > 0 {
		heap.Fix(&s.inputs, 0)
	} else {
		heap.Pop(&s.inputs)
		in.release()
	}
	return nil
}

// fill reads from a log until its first record can leave, or there are no more.
func (s *Source) fill(in *input) error {
	for !in.window.ready() {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil && err != tooLong {
			return err
		}
		s.stats.Lines++
		h := in.window.take()
		if err == nil {
			err = in.format.Parse(line, &h.Record)
		}
		if err != nil {
			in.window.drop(h)
			s.stats.addMalformed(in, line, err)
			continue
		}
		h.line = in.line
		if in.window.add(h) {
			s.stats.Late++
		}
	}
	return nil
}

// Stats returns what was read so far.
func (s *Source) Stats() Stats {
	stats := s.stats
	stats.Examples = slices.Clone(stats.Examples)
	for _, in := range s.all {
		stats.Read += in.raw.n
	}
	if s.unsized {
		stats.Total = 0
	}
	return stats
}

// Close closes the files. It may be called while Next runs, which then fails, and more than once.
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

// merge is a heap of inputs by their first records. Those of one time are in the order of the logs.
type merge []*input

func (m merge) Len() int { return len(m) }

func (m merge) Less(i, j int) bool {
	a, b := m[i].window.first().At, m[j].window.first().At
	return a < b || a == b && m[i].place < m[j].place
}

func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push implements [heap.Interface].
func (m *merge) Push(in any) { *m = append(*m, in.(*input)) }

// Pop implements [heap.Interface].
func (m *merge) Pop() any {
	last := len(*m) - 1
	in := (*m)[last]
	*m = (*m)[:last]
	return in
}
