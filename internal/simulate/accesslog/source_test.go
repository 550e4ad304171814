package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-limiter/stint/internal/testkit"
)

// lineAt returns a line. Tests identify it by its path.
func lineAt(second int, path string) string {
	at := time.Unix(int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET /%s HTTP/1.1\" 200 1 \"-\" \"-\"\n", at, path)
}

// logOf returns lines at these seconds. Their paths are their indexes.
func logOf(seconds ...int) string {
	var b strings.Builder
	for i, second := range seconds {
		b.WriteString(lineAt(second, fmt.Sprint(i)))
	}
	return b.String()
}

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name string
		logs []string
		want string // second/path
		late int64
	}{
		{"nothing", []string{""}, "", 0},
		{"one after the other", []string{logOf(100, 100, 101)}, "100/0 100/1 101/2", 0},
		{"out of order", []string{logOf(100, 105, 103, 96, 106)}, "96/3 100/0 103/2 105/1 106/4", 0},
		{"as late as may be", []string{logOf(100, 110, 100, 120)}, "100/0 100/2 110/1 120/3", 0},
		{"later, but nothing has left since", []string{logOf(100, 111, 100, 120)}, "100/0 100/2 111/1 120/3", 0},
		{"too late", []string{logOf(100, 105, 116, 101, 99, 117)}, "100/0 105/1 105/3 105/4 116/2 117/5", 2},
		{"one that is far ahead", []string{logOf(100, 9000, 101, 102, 101)}, "100/0 101/2 102/3 102/4 9000/1", 1},
		{"logs of one time", []string{logOf(100, 102), logOf(100, 101, 102)}, "100/0 100/0 101/1 102/1 102/2", 0},
		{"logs one after the other, the last one first", []string{logOf(200, 201), logOf(100, 101), ""},
			"100/0 101/1 200/0 201/1", 0},
	} {
		got, stats := readAll(t, test.logs, Options{})
		if strings.Join(got, " ") != test.want || stats.Late != test.late || stats.Malformed != 0 ||
			stats.Lines != int64(len(got)) {
			t.Errorf("%s: got %v, %+v, want %s, %d late", test.name, got, stats, test.want, test.late)
		}
	}
}

// TestByteOrderMark: it is not part of the first line, which determines the format.
func TestByteOrderMark(t *testing.T) {
	for _, log := range []string{logOf(100), `{"time": 100, "path": "/0"}`, "", "\n"} {
		got, stats := readAll(t, []string{byteOrderMark + log}, Options{})
		if want := min(len(strings.TrimSpace(log)), 1); len(got) != want || stats.Malformed != 0 {
			t.Errorf("%q: got %v, %+v", log, got, stats)
		}
	}
}

func TestStats(t *testing.T) {
	log := logOf(100, 99) + "\n \r\nhello\n" + strings.Repeat("-\n", 3) + "{\n" + lineAt(98, "x")
	got, stats := readAll(t, []string{log}, Options{})
	if want := "98/x 99/1 100/0"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if stats.Lines != 8 || stats.Malformed != 5 || stats.Last != 100e9 ||
		stats.Read != stats.Total || stats.Total != int64(len(log)) {
		t.Errorf("got %+v", stats)
	}
	want := Malformed{"0.log", 5, "hello", string(noTime)}
	stats.Examples[0].File = filepath.Base(stats.Examples[0].File)
	if len(stats.Examples) != maxAlike || stats.Examples[0] != want {
		t.Errorf("got %v, want two, the first of which is %v", stats.Examples, want)
	}
}

func TestLongLines(t *testing.T) {
	short := lineAt(100, "a")
	full := lineAt(101, strings.Repeat("b", maxLine+2-len(short)))
	for _, end := range []string{"\n", "\r\n"} {
		log := short +
			strings.TrimSuffix(full, "\n") + end +
			lineAt(102, strings.Repeat("c", maxLine+3-len(short))) +
			lineAt(103, strings.Repeat("d", 5*maxLine)) +
			lineAt(104, "e") +
			strings.Repeat("f", 2*maxLine)
		got, stats := readAll(t, []string{log}, Options{})
		if len(got) != 3 || len(got[1]) != len("101/")+maxLine+2-len(short) || got[2] != "104/e" {
			t.Errorf("got %d records", len(got))
		}
		if stats.Lines != 6 || stats.Malformed != 3 || stats.Examples[0].Line != 3 ||
			stats.Examples[0].Reason != string(tooLong) {
			t.Errorf("got %+v", stats)
		}
	}
}

// compress returns a log in both formats.
func compress(t *testing.T, log string) (zipped, zstandard string) {
	t.Helper()
	var gz, zst bytes.Buffer
	encoder := testkit.Must(zstd.NewWriter(&zst))(t)
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gz), encoder} {
		if _, err := io.WriteString(w, log); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return gz.String(), zst.String()
}

func TestCompressed(t *testing.T) {
	zipped, zstandard := compress(t, logOf(100, 101, 102))
	zipped, zstandard = zipped+zipped, zstandard+zstandard // of which there may be several in one file
	skippable := "\x5a\x2a\x4d\x18\x02\x00\x00\x00ab" + zstandard
	for _, log := range []string{zipped, zstandard, skippable} {
		got, stats := readAll(t, []string{log}, Options{})
		if len(got) != 6 || stats.Read != int64(len(log)) || stats.Total != stats.Read {
			t.Errorf("got %v, %+v, want %d bytes", got, stats, len(log))
		}
	}
}

// TestDamaged: of compressed data that is truncated or broken, the lines before that count, and so
// do all other logs.
func TestDamaged(t *testing.T) {
	var lines []string
	for i := range 20_000 {
		lines = append(lines, lineAt(100+i, fmt.Sprint(rand.Uint64())))
	}
	zipped, zstandard := compress(t, strings.Join(lines, ""))
	broken := []byte(zipped)
	broken[len(broken)-8]++ // in the checksum
	for name, test := range map[string]struct{ log, want string }{
		"gzip":   {zipped[:len(zipped)/2], "the compressed data is truncated"},
		"zstd":   {zstandard[:len(zstandard)/2], "the compressed data is truncated"},
		"broken": {string(broken), "gzip: invalid checksum"},
		"head":   {zipped[:5], "the compressed data is truncated"},
	} {
		got, stats := readAll(t, []string{logOf(1), test.log, logOf(2)}, Options{})
		n := int64(len(got) - 2)
		if len(stats.Damaged) != 1 || stats.Malformed != 0 || stats.Damaged[0].Lines != n ||
			(n < 1000) != (name == "head") ||
			!strings.HasPrefix(stats.Damaged[0].Reason, test.want) {
			t.Errorf("%s: got %d lines, %+v", name, n, stats)
		}
	}
	if _, err := Open(writeLogs(t, []string{zipped[:5]}), Options{}); err == nil ||
		!strings.Contains(err.Error(), "0.log: the compressed data is truncated") {
		t.Errorf("nothing but half a header: got %v", err)
	}
}

func TestStdin(t *testing.T) {
	paths := append(writeLogs(t, []string{logOf(101)}), "-")
	got, stats := readFrom(t, paths, Options{Stdin: strings.NewReader(logOf(100) + "hello\n")})
	if want := "100/0 101/0"; strings.Join(got, " ") != want || stats.Total != 0 || stats.Read == 0 ||
		stats.Examples[0].File != "standard input" {
		t.Errorf("got %v, %+v, want %s", got, stats, want)
	}
}

func TestEachLogHasItsFormat(t *testing.T) {
	got, _ := readAll(t, []string{logOf(100), caddyLine, istioLine}, Options{})
	if want := "100/0 1606339578/status/418 1646861401/a/b"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	got, stats := readAll(t, []string{logOf(100), istioLine}, Options{Format: mustFormat(t, "envoy", "")})
	if want := "1606339578/status/418"; strings.Join(got, " ") != want || stats.Malformed != 1 {
		t.Errorf("got %v, %+v, want %s", got, stats, want)
	}
}

func TestOpenMistakes(t *testing.T) {
	good := writeLogs(t, []string{logOf(100), "hello\n", strings.Repeat("\n", 2*maxLine),
		"\x1f\x8b is how gzip begins", "\xfd7zXZ\x00", "BZh91AY"})
	missing := filepath.Join(t.TempDir(), "missing.log")
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{nil, "accesslog: no logs; want files, or - for standard input"},
		{[]string{"-", good[0], "-"}, "accesslog: standard input (-) is given twice, but can be read only once"},
		{[]string{"-"}, "accesslog: no standard input"},
		{[]string{good[0], missing}, "accesslog: open " + missing + ": no such file or directory"},
		{[]string{t.TempDir()}, "is a directory"},
		{good[1:2], "accesslog: " + good[1] + ": unknown format"},
		{good[4:5], ": compressed with xz, which is not supported; want gzip, zstd, or: xz -dc " + good[4] + " | stint simulate … -"},
		{good[5:6], ": compressed with bzip2, which is not supported; want gzip, zstd, or: bzip2 -dc " + good[5] + " | stint simulate … -"},
		{good[3:4], "accesslog: " + good[3] + ": gzip: invalid header"},
	} {
		if _, err := Open(test.paths, Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s", test.paths, err, test.want)
		}
	}
}

// TestCloseWhileReading: Close ends a Next that waits for a pipe.
func TestCloseWhileReading(t *testing.T) {
	pipe, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer writer.Close()
	if _, err := writer.WriteString(logOf(100)); err != nil {
		t.Fatal(err)
	}
	source := testkit.Must(Open([]string{fmt.Sprintf("/dev/fd/%d", pipe.Fd())}, Options{Slack: -1}))(t)
	done := make(chan error)
	go func() {
		err := source.Next(new(Record)) // returns the record, having waited for the next one
		if err == nil {
			err = source.Next(new(Record))
		}
		done <- err
	}()
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want os.ErrClosed", err)
	}
}

// TestRecordsAreIndependent: a record does not change when the next one is read.
func TestRecordsAreIndependent(t *testing.T) {
	source := testkit.Must(Open(writeLogs(t, []string{logOf(100, 101, 90, 102, 103)}), Options{}))(t)
	var records [5]Record
	for i := range records {
		if err := source.Next(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"/2", "/0", "/1", "/3", "/4"} {
		if records[i].Path != want {
			t.Errorf("record %d: got %s, want %s", i, records[i].Path, want)
		}
	}
}

func writeLogs(t *testing.T, logs []string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i, log := range logs {
		path := filepath.Join(dir, fmt.Sprintf("%d.log", i))
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// readAll returns the records of logs as second/path.
func readAll(t *testing.T, logs []string, o Options) ([]string, Stats) {
	t.Helper()
	return readFrom(t, writeLogs(t, logs), o)
}

func readFrom(t *testing.T, paths []string, o Options) (records []string, stats Stats) {
	t.Helper()
	source := testkit.Must(Open(paths, o))(t)
	defer source.Close()
	var r Record
	for {
		err := source.Next(&r)
		if err == io.EOF {
			return slices.Clip(records), source.Stats()
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, fmt.Sprintf("%d%s", r.At/1e9, r.Path))
	}
}
