package overrides

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/policy"
)

// maxLine is the maximum length of a line that Read accepts, in bytes.
const maxLine = 16 << 10

// Write writes overrides as JSON, one per line.
func Write(w io.Writer, all []Override) error {
	out := json.NewEncoder(w)
	for i := range all {
		if err := out.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the output of [Write] and calls f with each override. If a line is invalid or f fails,
// the error includes the line number.
func Read(r io.Reader, f func(Override) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var o Override
		in := json.NewDecoder(bytes.NewReader(text))
		in.DisallowUnknownFields()
		err := plain(in.Decode(&o))
		if err == nil && in.More() {
			err = errors.New("more than one value; want one override per line")
		}
		if err == nil {
			err = contract.Mistakes(o.Validate())
		}
		if err == nil {
			err = f(o)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// plain rewords a decoding error for people who write overrides.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("%q is not a time; want one such as %q", strings.Trim(wrong.Value, `"`),
			"2026-11-20T18:00:00Z")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s is a %s", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("%s; want an override such as %s", strings.TrimPrefix(contract.Mistakes(err).Error(), "json: "),
		`{"subject": "user:42", "policy": "api", "limits": ["500/1m"], "until": "2026-11-20T18:00:00Z"}`)
}

// Fixed returns overrides that apply even after they have ended. It is for trying out overrides.
func Fixed(all []Override) policy.Overrides {
	f := fixed{}
	for _, o := range all {
		f[fixedKey{o.Subject, o.Policy}] = o
	}
	return f
}

type fixedKey struct{ subject, policy string }

type fixed map[fixedKey]Override

func (f fixed) Limits(subject, policy string, configured []stint.Limit) []stint.Limit {
	if o, ok := f[fixedKey{subject, policy}]; ok {
		return o.Apply(configured)
	}
	return configured
}
