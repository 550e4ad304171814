package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/memorystore"
)

// Source is a log: requests in chronological order.
type Source interface {
	// Next reads the next request. It returns io.EOF after the last one.
	Next(*accesslog.Record) error
	// Stats returns statistics on what has been read so far.
	Stats() accesslog.Stats
}

// progressEvery is the number of requests between two calls of Options.Progress. Run also checks
// its context at these points.
const progressEvery = 4096

// Run replays a log. It returns when the log ends, or with the context's error when the context
// ends. It cannot interrupt a source that blocks; the caller can close the source to do so. Run
// calls the source and the callbacks in the calling goroutine.
func Run(ctx context.Context, src Source, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &run{options: &o}
	defer r.close()
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
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
			return nil, fmt.Errorf("simulate: the request for %q at %v: %w", r.record.Path, r.clock.now().UTC(), err)
		}
	}
}

// run is a replay in progress.
type run struct {
	options *Options
	clock   clock
	stores  []*memorystore.Store // stores in virtual time; closed by [run.close]
	record  accesslog.Record     // the request being replayed
	input   input

	replayer    *replayer
	against     *replayer    // nil if there is no second configuration
	comparison  *comparison  // nil if there is no second configuration
	recommender *recommender // nil if no recommendations are requested

	log         Log
	noClient    int64
	users       int64 // requests whose callers are identified by the user in the log
	tokens      tokenCounts
	first, last int64 // times of requests in Unix microseconds
}

func (r *run) open() (err error) {
	o := r.options
	if r.replayer, err = r.newReplayer(o.Set); err != nil {
		return err
	}
	if o.Against != nil {
		r.comparison = newComparison(o.MaxSubjects)
		if r.against, err = r.newReplayer(o.Against); err != nil {
			return err
		}
	}
	if len(o.Recommend) > 0 {
		r.recommender, err = r.newRecommender()
	}
	return err
}

func (r *run) close() {
	for _, store := range r.stores {
		_ = store.Close()
	}
}

// Bounds for the stores. A subject may have several counts, each with its own windows.
const (
	countsPerSubject = 8
	bytesPerSubject  = 4 << 10
	// maxSubjects is the maximum value of Options.MaxSubjects. Multiplied by countsPerSubject, it
	// is the largest MaxSubjects that a memory store accepts.
	maxSubjects = 1 << 27
)

// newStore returns a store in virtual time. The store has room for at least the default number of
// subjects, because unused room costs nothing.
func (r *run) newStore() (*memorystore.Store, error) {
	subjects := max(r.options.MaxSubjects, DefaultMaxSubjects)
	store, err := memorystore.New(memorystore.Config{
		MaxSubjects: countsPerSubject * subjects,
		MaxBytes:    bytesPerSubject * int64(subjects),
		Now:         r.clock.now,
	})
	if err == nil {
		r.stores = append(r.stores, store)
	}
	return store, err
}

func (r *run) progress(src Source) {
	if r.options.Progress != nil {
		r.options.Progress(src.Stats())
	}
}

// replay replays the current record, unless it is outside the time range of the options.
func (r *run) replay() error {
	at := time.Unix(0, r.record.At)
	if at.Before(r.options.From) || !r.options.To.IsZero() && !at.Before(r.options.To) {
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
	if r.record.ClientName != "" {
		r.log.HostNames++
	}
	in := r.input.of(&r.record)
	if err := r.replayer.replay(in, &r.record, now); err != nil {
		return err
	}
	if r.input.usedUser {
		r.users++
	}
	r.tokens.add(&r.input)
	if r.against != nil {
		if err := r.against.replay(in, &r.record, now); err != nil {
			return fmt.Errorf("the other configuration: %w", err)
		}
		r.comparison.add(r.replayer, r.against)
	}
	if r.recommender != nil {
		r.input.known.Whole = true
		if err := r.recommender.add(in, outcomeOf(&r.record)); err != nil {
			return err
		}
	}
	if r.options.Each != nil {
		r.options.Each(&r.record, &r.replayer.verdict)
	}
	return nil
}

func (r *run) result(read accesslog.Stats) *Result {
	r.log.Lines, r.log.Bytes, r.log.Late = read.Lines, read.Read, read.Late
	r.log.Damaged = append([]accesslog.Damage{}, read.Damaged...)
	r.log.Malformed, r.log.Examples = read.Malformed, append([]accesslog.Malformed{}, read.Examples...)
	if r.log.Requests > 0 {
		r.log.First, r.log.Last = instant(r.first), instant(r.last)
	}
	result := &Result{
		Warning: warning(&r.log), Log: r.log, Outcome: r.replayer.counter.outcome(r.options.MaxSubjects),
		Recommendations: []Recommendation{},
	}
	if r.against != nil {
		against := r.against.counter.outcome(r.options.MaxSubjects)
		result.Against, result.Comparison = &against, r.comparison.result(r.options.Top)
	}
	if r.recommender != nil {
		result.Recommendations = r.recommender.recommend(r.options.Recommend)
	}
	result.Notes = r.notes(result)
	return result
}

// clock shows the virtual time, which is the time of the latest request. It does not move between
// requests and never goes back. It is atomic because background goroutines of the stores also read
// it.
type clock struct{ us atomic.Int64 }

// advance moves the clock forward to the given time in Unix nanoseconds. It returns the clock's
// time in Unix microseconds.
func (c *clock) advance(to int64) int64 {
	now := max(c.us.Load(), to/1000)
	c.us.Store(now)
	return now
}

func (c *clock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// instant converts Unix microseconds to a time in UTC.
func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// duration converts microseconds to a Duration. On overflow, it returns the longest Duration.
func duration(us int64) Duration {
	return Duration(min(us, math.MaxInt64/int64(time.Microsecond)) * int64(time.Microsecond))
}
