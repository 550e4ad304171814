package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

func TestScreen(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		want     string
	}{
		{"file", false, "head\na\nb\n\nc\n\n"},
		{"terminal", true, "\x1b[?7lhead\na\x1b[K\nb\x1b[K\n\x1b[J\x1b[2Ac\x1b[K\n\x1b[J\x1b[?7h"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			frames := [][]string{{"a", "b"}, {"c"}}
			var out bytes.Buffer
			s := &screen{out: &out, head: "head\n", terminal: test.terminal}
			err := s.run(ctx, func() []string {
				frame := frames[0]
				frames = frames[1:]
				cancel()
				return frame
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestScreenEndsWithItsReader(t *testing.T) {
	gone := errors.New("gone")
	s := newScreen(failing{gone}, "head\n")
	if err := s.run(t.Context(), func() []string { return nil }); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
