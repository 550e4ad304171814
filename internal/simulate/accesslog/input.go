package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLine is the maximum length of a line in bytes. Longer lines are malformed.
const maxLine = 64 << 10

// byteOrderMark is what some editors and shells write at the start of files.
const byteOrderMark = "\ufeff"

const tooLong = reason("the line is longer than 64 KB")

// sampleLines is the maximum number of lines from which a format is detected.
const sampleLines = 100

// input is one log.
type input struct {
	index  int // in the order of the paths
	name   string
	file   *os.File // nil for standard input
	raw    countingReader
	lines  *bufio.Reader
	format Format // nil until detected
	line   int64  // number of the last line read
	sorter sorter
}

// countingReader counts the bytes that are read.
type countingReader struct {
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// start prepares to read lines from a reader, which may be compressed. It detects the format, if
// there are any lines.
func (in *input) start(from io.Reader) error {
	in.raw.from = from
	plain, err := decompress(bufio.NewReaderSize(&in.raw, 64<<10))
	if err != nil {
		return in.failed(err)
	}
	in.lines = bufio.NewReaderSize(plain, maxLine+len("\r\n"))
	if begin, _ := in.lines.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = in.lines.Discard(len(byteOrderMark)) // cannot fail: it is buffered
	}
	if in.format != nil {
		return nil
	}
	sample, err := in.sample()
	if err != nil || len(sample) == 0 {
		return err
	}
	if in.format, err = detect(sample); err != nil {
		return in.failed(err)
	}
	return nil
}

// decompress returns a reader of the content of from. The first bytes tell how it is compressed.
func decompress(from *bufio.Reader) (io.Reader, error) {
	magic, err := from.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(from)
	case len(magic) == 4 && (bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})): // a skippable frame
		// One decoder starts no goroutines. The window is the default maximum of the zstd command.
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}
	return from, nil
}

// sample returns the first lines without consuming them.
func (in *input) sample() ([][]byte, error) {
	begin, err := in.lines.Peek(maxLine)
	if err != nil && err != io.EOF {
		return nil, in.failed(err)
	}
	all := bytes.Split(begin, []byte("\n"))
	if err == nil {
		all = all[:len(all)-1] // the last line may be incomplete
	}
	var sample [][]byte
	for _, line := range all {
		if line = bytes.TrimSpace(line); len(line) > 0 && len(sample) < sampleLines {
			sample = append(sample, line)
		}
	}
	if err == nil && len(sample) == 0 {
		return nil, in.failed(errors.New(
			"no line in the first 64 KB to detect the format; want an access log, or its format"))
	}
	return sample, nil
}

// next returns the next line that is not empty. It is valid until the next call. The error is
// tooLong if the line is, and io.EOF after the last line.
func (in *input) next() ([]byte, error) {
	for {
		line, err := in.lines.ReadSlice('\n')
		if len(line) == 0 && err == io.EOF {
			return nil, io.EOF
		}
		in.line++
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return nil, in.failed(err)
		}
		text := bytes.TrimSpace(line)
		if err == bufio.ErrBufferFull || len(text) > maxLine {
			text = bytes.Clone(text[:min(len(text), 1<<10)]) // skip overwrites the buffer
			return text, in.skip(err)
		}
		if len(text) > 0 {
			return text, nil
		}
	}
}

// skip reads the rest of a line that is too long.
func (in *input) skip(err error) error {
	for err == bufio.ErrBufferFull {
		_, err = in.lines.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return in.failed(err)
	}
	return tooLong
}

// release frees the memory of an input that has ended.
func (in *input) release() { in.raw.from, in.lines, in.sorter = nil, nil, sorter{} }

// failed adds the name of the log to an error.
func (in *input) failed(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("accesslog: %w", err) // it has the name already
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("accesslog: %s: the compressed data is truncated: %w", in.name, err)
	}
	return fmt.Errorf("accesslog: %s: %w", in.name, err)
}
