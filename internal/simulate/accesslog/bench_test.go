package accesslog

import (
	"bytes"
	"io"
	"testing"

	"github.com/stint-limiter/stint/internal/loggen"
)

// BenchmarkParse parses lines of each format.
func BenchmarkParse(b *testing.B) {
	for _, test := range []struct {
		format string
		lines  [][]byte
	}{
		{"combined", generated(b, loggen.Options{Lines: 1000})},
		{"json", generated(b, loggen.Options{Lines: 1000, JSON: true})},
		{"caddy", [][]byte{[]byte(caddyLine)}},
		{"envoy", [][]byte{[]byte(istioLine)}},
		{"traefik", [][]byte{[]byte(traefikLine)}},
	} {
		b.Run(test.format, func(b *testing.B) {
			format, err := NewFormat(test.format, Mapping{})
			if err != nil {
				b.Fatal(err)
			}
			var r Record
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := format.Parse(test.lines[i%len(test.lines)], &r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// BenchmarkSource reads a log of 100,000 lines: it splits, parses and sorts them.
func BenchmarkSource(b *testing.B) {
	const lines = 100_000
	var log bytes.Buffer
	if err := loggen.Generate(&log, loggen.Options{Lines: lines}); err != nil {
		b.Fatal(err)
	}
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		source, err := Open([]string{"-"}, Options{Stdin: bytes.NewReader(log.Bytes())})
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			err = source.Next(&r)
		}
		if got := source.Stats(); err != io.EOF || got.Lines != lines || got.Malformed+got.Late > 0 {
			b.Fatalf("got %v, %+v", err, got)
		}
	}
	b.ReportMetric(float64(b.N)*lines/b.Elapsed().Seconds(), "lines/s")
}

func generated(b *testing.B, o loggen.Options) [][]byte {
	var log bytes.Buffer
	if err := loggen.Generate(&log, o); err != nil {
		b.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
}
