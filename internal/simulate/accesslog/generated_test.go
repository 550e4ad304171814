package accesslog

import (
	"bytes"
	"io"
	"testing"

	"github.com/stint-limiter/stint/internal/loggen"
)

// TestGenerated: generated logs are read completely and have the same content in both formats.
func TestGenerated(t *testing.T) {
	const lines = 5000
	m, err := ParseMapping(loggen.Mapping)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := NewFormat("", m)
	if err != nil {
		t.Fatal(err)
	}
	inLines := openGenerated(t, loggen.Options{Seed: 3, Lines: lines}, Options{})
	inJSON := openGenerated(t, loggen.Options{Seed: 3, Lines: lines, JSON: true}, Options{Format: mapped})
	var a, b Record
	members := 0
	for range lines {
		if err := inLines.Next(&a); err != nil {
			t.Fatal(err)
		}
		if err := inJSON.Next(&b); err != nil {
			t.Fatal(err)
		}
		if a.At/1e9 != b.At/1e9 || a.Client != b.Client || a.User != b.User || a.Method != b.Method ||
			a.Path != b.Path || a.Status != b.Status {
			t.Fatalf("got %+v and %+v", a, b)
		}
		if a.User != "" {
			members++
			if len(b.Claims) != 1 || header(&b, "X-Api-Key") == "-" {
				t.Fatalf("got %+v, want an API key and a plan", b)
			}
		}
	}
	if members == 0 {
		t.Error("nobody is signed in")
	}
	for _, source := range []*Source{inLines, inJSON} {
		if err := source.Next(&a); err != io.EOF {
			t.Errorf("got %v, want the end", err)
		}
		if got := source.Stats(); got.Lines != lines || got.Malformed+got.Late > 0 {
			t.Errorf("got %+v", got)
		}
	}
}

// TestSourceAllocations: allocations do not grow with the number of lines.
func TestSourceAllocations(t *testing.T) {
	const lines = 20_000
	var log bytes.Buffer
	if err := loggen.Generate(&log, loggen.Options{Lines: lines}); err != nil {
		t.Fatal(err)
	}
	var r Record
	got := testing.AllocsPerRun(1, func() {
		source, err := Open([]string{"-"}, Options{Stdin: bytes.NewReader(log.Bytes()),
			Format: lineFormat{}})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = source.Next(&r)
		}
		if err != io.EOF || source.Stats().Lines != lines {
			t.Fatalf("got %v, %+v", err, source.Stats())
		}
	})
	if got > lines/20 {
		t.Errorf("got %v allocations for %d lines", got, lines)
	}
}

func openGenerated(t *testing.T, log loggen.Options, o Options) *Source {
	t.Helper()
	var b bytes.Buffer
	if err := loggen.Generate(&b, log); err != nil {
		t.Fatal(err)
	}
	o.Stdin = &b
	source, err := Open([]string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return source
}
