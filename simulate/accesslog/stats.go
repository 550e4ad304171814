package accesslog

import (
	"fmt"
	"strings"
)

// maxExamples is how many malformed lines are shown, and maxAlike how many of them for the same reason.
const (
	maxExamples = 5
	maxAlike    = 2
)

// Stats is what was read.
type Stats struct {
	// Lines is how many there were, without empty ones; Malformed how many of them could not be read, and Late how
	// many came too long after later ones. See [Options.Slack].
	Lines, Malformed, Late int64
	// Examples are up to five of the malformed lines.
	Examples []Malformed
	// Read is how many bytes of the logs were read, as they are on disk. Total is how many there are, zero if that is
	// not known, as of standard input.
	Read, Total int64
	// First and Last are the times of the first and the last record that Next returned, in Unix nanoseconds; zero if
	// there was none.
	First, Last int64
}

// Malformed is a line that could not be read.
type Malformed struct {
	File   string
	Line   int64
	Text   string // shortened
	Reason string
}

// String is one line for people: access.log:17: no request line: "…".
func (m Malformed) String() string {
	return fmt.Sprintf("%s:%d: %s: %q", m.File, m.Line, m.Reason, m.Text)
}

func (s *Stats) addMalformed(in *input, line []byte, err error) {
	s.Malformed++
	if len(s.Examples) == maxExamples {
		return
	}
	reason, alike := why(err), 0
	for _, m := range s.Examples {
		if m.Reason == reason {
			alike++
		}
	}
	if alike < maxAlike {
		s.Examples = append(s.Examples, Malformed{in.name, in.line, shorten(line), reason})
	}
}

// why returns the reason for which a line is malformed, without the name of the package.
func why(err error) string { return strings.TrimPrefix(err.Error(), "accesslog: ") }
