package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/simulate/accesslog"
)

// Source is a log: its requests in the order of their times.
type Source interface {
	// Next reads the next request. It returns io.EOF after the last.
	Next(*accesslog.Record) error
	// Stats is what was read so far.
	Stats() accesslog.Stats
}

// Defaults of [Options].
const (
	DefaultMaxSubjects = 1_000_000
	DefaultTop         = 20
)

// Options say what to replay a log through, and what to find out.
type Options struct {
	// Set is the configuration.
	Set *policy.Set
	// Against is another one that judges the same requests, to compare; nil for none.
	Against *policy.Set
	// EnforceAll shows what would happen if no limit were in shadow and all were rolled out to everybody.
	EnforceAll bool

	// Recommend are shares of subjects to leave untouched, above 0 and up to 1, for each of which limits are recommended:
	// 0.999. Without any, nothing is; it takes longer than all else.
	Recommend []float64
	// Windows and Bursts are what to recommend limits for, beside the windows and bursts of the configuration: every
	// window with every burst, a multiple of the limit. No bursts are a burst of 1, which is none.
	Windows []time.Duration
	Bursts  []int64

	// From and To bound the requests that are replayed: no earlier than the one, earlier than the other. Zero is no bound.
	From, To time.Time
	// MaxSubjects is how many subjects are told apart; the others are counted together. Zero means DefaultMaxSubjects.
	MaxSubjects int
	// Top is how long lists of subjects are at most. Zero means DefaultTop.
	Top int

	// Progress is called every few thousand requests and at the end, if it is not nil.
	Progress func(accesslog.Stats)
	// Each is called with every request that was replayed and the verdict on it, if it is not nil. It must keep neither.
	Each func(*accesslog.Record, *policy.Verdict)
}

// validate reports everything that is wrong with the options, and fills in the defaults.
func (o *Options) validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Set == nil {
		mistake("Set is nil; want the configuration to replay")
	}
	for _, share := range o.Recommend {
		if !(share > 0 && share <= 1) {
			mistake("Recommend has the share %v; want more than 0 and at most 1", share)
		}
	}
	for _, window := range o.Windows {
		if window < stint.MinWindow || window > stint.MaxWindow || window%time.Microsecond != 0 {
			mistake("Windows has %v; want whole microseconds from %v to %v", window, stint.MinWindow, stint.MaxWindow)
		}
	}
	for _, burst := range o.Bursts {
		if burst < 1 || burst > stint.MaxBurst {
			mistake("Bursts has %d; want 1 to %d", burst, stint.MaxBurst)
		}
	}
	if !o.From.IsZero() && !o.To.IsZero() && !o.From.Before(o.To) {
		mistake("From is %v and To is %v; want From before To", o.From, o.To)
	}
	if o.MaxSubjects < 0 || o.MaxSubjects > maxSubjects || o.Top < 0 {
		mistake("MaxSubjects is %d and Top is %d; want 0 to %d and 0 or more", o.MaxSubjects, o.Top, maxSubjects)
	}
	if len(errs) > 0 {
		return fmt.Errorf("simulate: %w", &stint.InvalidError{Err: errors.Join(errs...)})
	}
	if o.MaxSubjects == 0 {
		o.MaxSubjects = DefaultMaxSubjects
	}
	if o.Top == 0 {
		o.Top = DefaultTop
	}
	if len(o.Bursts) == 0 {
		o.Bursts = []int64{1}
	}
	return nil
}

// progressEvery is how many requests are replayed between two reports of progress and looks at the context.
const progressEvery = 4096

// Run replays a log. It is done when the log is, or when the context ends, whose error it then returns; a source that does
// not get on is for the caller to close. Everything happens in the calling goroutine, callbacks included.
func Run(ctx context.Context, src Source, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r, err := newRun(&o)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	defer r.close()
	for n := 1; ; n++ {
		if n%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("simulate: %w", err)
			}
			r.progress(src)
		}
		switch err := src.Next(&r.record); {
		case errors.Is(err, io.EOF):
			r.progress(src)
			return r.result(src.Stats()), nil
		case err != nil:
			return nil, fmt.Errorf("simulate: %w", err)
		}
		if err := r.replay(); err != nil {
			return nil, fmt.Errorf("simulate: the request for %q at %v: %w", r.record.Path, instant(r.clock.micros()), err)
		}
	}
}

// run is a replay in progress.
type run struct {
	options *Options
	clock   *clock
	record  accesslog.Record
	input   input

	court   *court
	against *court      // nil without another configuration
	compare *comparison // nil without
	demand  *demand     // nil if nothing is to be recommended

	from, to    int64 // Unix nanoseconds
	log         Log
	noClient    int64
	first, last int64 // microseconds
}

func newRun(o *Options) (*run, error) {
	r := &run{options: o, clock: new(clock), from: bound(o.From, minInstant), to: bound(o.To, maxInstant)}
	var err error
	if r.court, err = newCourt(o.Set, o, r.clock); err != nil {
		return nil, err
	}
	if o.Against != nil {
		r.compare = newComparison(o.MaxSubjects)
		r.against, err = newCourt(o.Against, o, r.clock)
	}
	if err == nil && len(o.Recommend) > 0 {
		r.demand, err = newDemand(o, r.clock)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) close() {
	r.court.close()
	if r.against != nil {
		r.against.close()
	}
	if r.demand != nil {
		r.demand.close()
	}
}

func (r *run) progress(src Source) {
	if r.options.Progress != nil {
		r.options.Progress(src.Stats())
	}
}

// replay judges and counts the record that was just read.
func (r *run) replay() error {
	if r.record.At < r.from || r.record.At >= r.to {
		r.log.Outside++
		return nil
	}
	now := r.clock.advance(r.record.At)
	if r.log.Requests == 0 {
		r.first = now
	}
	r.last = now
	r.log.Requests++
	if r.record.Status == http.StatusTooManyRequests {
		r.log.Limited++
	}
	if !r.record.Client.IsValid() {
		r.noClient++
	}
	in := r.input.of(&r.record)
	if err := r.court.judge(in, &r.record, now); err != nil {
		return err
	}
	if r.against != nil {
		if err := r.against.judge(in, &r.record, now); err != nil {
			return fmt.Errorf("the other configuration: %w", err)
		}
		r.compare.add(r.court, r.against)
	}
	if r.demand != nil {
		if err := r.demand.add(in, outcomeOf(&r.record)); err != nil {
			return err
		}
	}
	if r.options.Each != nil {
		r.options.Each(&r.record, &r.court.verdict)
	}
	return nil
}
