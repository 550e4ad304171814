package accesslog

import (
	"bytes"
	"io"
	"testing"

	"github.com/stint-limiter/stint/internal/simulate/loggen"
)

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
