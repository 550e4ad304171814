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

// byteOrderMark is a prefix that some editors and shells write at the beginning of a file.
const byteOrderMark = "\ufeff"

const tooLong = reason("the line is longer than 64 KB")

// unknownLines is the maximum number of lines that a detector reads to find the format of a log. If
// all of them are malformed, the format is unknown.
const unknownLines = 10_000

// input is one log.
type input struct {
	index  int // index in the list of paths
	name   string
	file   *os.File // nil for standard input
	raw    countingReader
	lines  *bufio.Reader
	format Format
	damage error // why the compressed data could not be read to the end
	line   int64 // number of the last line read
	sorter sorter
}

// countingReader counts the bytes that it reads. It keeps the error of the last Read.
type countingReader struct {
	from io.Reader
	n    int64
	err  error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.err = err
	return n, err
}

// start prepares to read lines from a reader. The data may be compressed.
func (in *input) start(from io.Reader) error {
	in.raw.from = from
	plain, err := in.decompress(bufio.NewReaderSize(&in.raw, 64<<10))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		in.damage, plain = io.ErrUnexpectedEOF, bytes.NewReader(nil)
	} else if err != nil {
		return in.failed(err)
	}
	in.lines = bufio.NewReaderSize(plain, maxLine+len("\r\n"))
	if begin, _ := in.lines.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = in.lines.Discard(len(byteOrderMark)) // cannot fail, because Peek has buffered these bytes
	}
	return nil
}

// decompress returns a reader of the decompressed content. It recognizes the compression by the
// first bytes.
func (in *input) decompress(from *bufio.Reader) (io.Reader, error) {
	magic, err := from.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(from)
	case len(magic) == 4 && (bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})): // a skippable frame of zstd
		// A decoder with concurrency 1 starts no goroutines. The window is the default maximum of
		// the zstd command.
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	case bytes.HasPrefix(magic, []byte("\xfd7zX")):
		return nil, in.unsupported("xz")
	case bytes.HasPrefix(magic, []byte("BZh")):
		return nil, in.unsupported("bzip2")
	}
	return from, nil
}

// unsupported returns the error for a log with an unsupported compression. The error tells the user
// to decompress the log with command.
func (in *input) unsupported(command string) error {
	file := " " + in.name
	if in.file == nil {
		file = ""
	}
	return fmt.Errorf("compressed with %s, which is not supported; want gzip, zstd, or: %s -dc%s | stint simulate … -",
		command, command, file)
}

// next returns the next line that is not empty. It is valid until the next call. For a line longer
// than maxLine, it returns only the beginning, and the error tooLong. After the last line, it
// returns io.EOF.
func (in *input) next() ([]byte, error) {
	for {
		line, err := in.lines.ReadSlice('\n')
		if len(line) == 0 && err == io.EOF {
			return nil, io.EOF
		}
		in.line++
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return nil, in.end(err)
		}
		text := bytes.TrimSpace(line)
		if err == bufio.ErrBufferFull || len(text) > maxLine {
			text = bytes.Clone(text[:min(len(text), 1<<10)]) // copied, because skip overwrites the buffer
			return text, in.skip(err)
		}
		if len(text) > 0 {
			return text, nil
		}
	}
}

// skip reads the rest of a line that is too long, and returns tooLong. err is the error that ended
// the previous read.
func (in *input) skip(err error) error {
	for err == bufio.ErrBufferFull {
		_, err = in.lines.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return in.end(err)
	}
	return tooLong
}

// end returns the error of an input that cannot be read any further. If its compressed data is
// damaged, the error is io.EOF, because the lines before the damage are good.
func (in *input) end(err error) error {
	if in.raw.err != nil && in.raw.err != io.EOF {
		return in.failed(err)
	}
	in.line--
	in.damage = err
	return io.EOF
}

func (in *input) damageText() string {
	if errors.Is(in.damage, io.ErrUnexpectedEOF) {
		return "the compressed data is truncated"
	}
	return in.damage.Error()
}

// release frees the memory of an input that has ended.
func (in *input) release() { in.raw.from, in.lines, in.sorter = nil, nil, sorter{} }

// failed adds the name of the log to an error.
func (in *input) failed(err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("accesslog: %w", err) // a PathError already contains the name
	}
	return fmt.Errorf("accesslog: %s: %w", in.name, err)
}
