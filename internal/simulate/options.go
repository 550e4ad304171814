package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/policy"
)

// Defaults of [Options].
const (
	DefaultMaxSubjects = 1_000_000
	defaultTop         = 20
)

// Options selects the configurations to replay a log through, and what to report.
type Options struct {
	// Set is the configuration.
	Set *policy.Set
	// Against is a second configuration to compare with. It decides the same requests. Nil means no
	// comparison.
	Against *policy.Set
	// EnforceAll enforces all limits for everyone, regardless of shadow and rollout in the
	// configuration.
	EnforceAll bool
	// Overrides gives individual subjects different limits, in both configurations. Nil means no
	// overrides.
	Overrides policy.Overrides

	// Recommend lists the shares of subjects to leave untouched, such as 0.999. Each is above 0 and
	// at most 1. For each share, every window gets a recommended limit. If Recommend is empty,
	// nothing is measured for recommendations. Measuring takes longer than the rest of the replay.
	Recommend []float64
	// Windows and Bursts add recommendations. Without them, limits are recommended only for the
	// windows and bursts of the configuration. Every window in Windows is combined with every burst
	// in Bursts. A burst is a multiple of the limit. If Bursts is empty, limits for Windows have no
	// burst.
	Windows []time.Duration
	Bursts  []int64

	// From and To bound the replay: it leaves out requests before From, and requests at or after
	// To. Zero means no bound.
	From, To time.Time
	// MaxSubjects is the maximum number of subjects that are counted separately. All others are
	// counted together. Zero means DefaultMaxSubjects.
	MaxSubjects int
	// Top is the maximum length of lists of subjects. Zero means 20.
	Top int

	// Progress, if not nil, is called every few thousand requests and at the end.
	Progress func(accesslog.Stats)
	// Each, if not nil, is called with every replayed request and its verdict. It must not retain
	// them.
	Each func(*accesslog.Record, *policy.Verdict)
}

// validate reports all mistakes in the options and fills in the defaults.
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
		o.Top = defaultTop
	}
	if len(o.Bursts) == 0 {
		o.Bursts = []int64{1}
	}
	return nil
}
