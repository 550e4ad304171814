package policy

import (
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/pathpattern"
)

// reading is one way in which an application may read a request.
type reading struct {
	path, method string
	folded       string // path with case folded, for applications that ignore case; otherwise ""
	last         bool   // whether the last value of a repeated field or cookie counts, instead of the first
}

// overrides are the header fields that override the method in some applications.
var overrides = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// readPaths adds those readings of the path that the set's patterns distinguish.
func (f *facts) readPaths(s *Set) {
	if len(s.patterns) == 0 {
		return
	}
	paths, ok := readPath(f.in.Path, f.in.RawPath)
	f.tooMany = !ok
	var seen []string
	consider := func(path, folded string) {
		r := reading{path: path, method: f.first.method, folded: folded}
		if fit := s.fitting(&r); !slices.Contains(seen, fit) {
			if seen = append(seen, fit); len(seen) > 1 { // the first reading is in f.first already
				f.add(r)
			}
		}
	}
	for _, path := range paths {
		folded := pathpattern.Fold(path)
		consider(path, "")
		if folded != path || s.upper {
			consider(path, folded)
		}
		if without, ok := withoutEnding(path); ok {
			if s.endingMatters(path, without, (*pathpattern.Pattern).Fits) {
				consider(without, "")
			}
			if low, _ := withoutEnding(folded); s.endingMatters(folded, low, (*pathpattern.Pattern).FitsFolded) {
				consider(without, low)
			}
		}
	}
}

// add adds a reading. If there are too many, it sets f.tooMany instead.
func (f *facts) add(r reading) {
	if f.count() == maxReadings {
		f.tooMany = true
		return
	}
	f.others = append(f.others, r)
}

func (f *facts) count() int { return 1 + len(f.others) }

// look makes reading i the current one. If there is only one reading, it is current already.
func (f *facts) look(i int) {
	if len(f.others) > 0 {
		f.reading = f.at(i)
	}
}

func (f *facts) at(i int) reading {
	if i == 0 {
		return f.first
	}
	return f.others[i-1]
}

// otherMethods returns the known methods that a request names in its override fields. It splits
// values at commas, because some servers join the lines of a field with commas.
func (f *facts) otherMethods(known []string) (methods []string) {
	if len(known) == 0 {
		return nil
	}
	words := 0
	for _, name := range overrides {
		for _, value := range f.lines(name) {
			for word := range strings.SplitSeq(value, ",") {
				if words++; words > maxReadings {
					f.tooMany = true
					return methods
				}
				word = strings.TrimSpace(word)
				i := slices.IndexFunc(known, func(method string) bool { return strings.EqualFold(method, word) })
				if i >= 0 && known[i] != f.first.method && !slices.Contains(methods, known[i]) {
					methods = append(methods, known[i])
				}
			}
		}
	}
	return methods
}

func (r *reading) fits(p *pathpattern.Pattern) bool {
	if r.folded != "" {
		return p.FitsFolded(r.folded)
	}
	return p.Fits(r.path)
}
