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

// MaxLine is how many bytes a line may have. A longer one is malformed.
const MaxLine = 64 << 10

// byteOrderMark is what some editors and shells begin files with.
const byteOrderMark = "\ufeff"

const tooLong = reason("the line is longer than 64 KB")

// sampleLines is how many lines a format is told by, if the first MaxLine bytes hold as many.
const sampleLines = 100

// input is one log.
type input struct {
	place  int // among the others
	name   string
	file   *os.File // nil for standard input
	raw    counter
	lines  *bufio.Reader
	format Format // nil until a line was seen, if it is to be detected
	line   int64  // number of the last one read
	window window
}

// counter counts what is read, as it is on disk.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// start begins to read what from has, which may be compressed.
func (in *input) start(from io.Reader) error {
	in.raw.from = from
	plain, err := decompress(bufio.NewReaderSize(&in.raw, 64<<10))
	if err != nil {
		return in.failed(err)
	}
	in.lines = bufio.NewReaderSize(plain, MaxLine+2) // a line, and what ends it
	if begin, _ := in.lines.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = in.lines.Discard(len(byteOrderMark)) // it is in the buffer
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

// decompress returns a reader of what is in from, by how that begins.
func decompress(from *bufio.Reader) (io.Reader, error) {
	magic, err := from.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(from)
	case len(magic) == 4 && (bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})): // a frame to skip
		// One decoder starts no goroutines; the window is the largest that zstd itself decompresses unasked.
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}
	return from, nil
}

// sample returns the first lines, without consuming them.
func (in *input) sample() ([][]byte, error) {
	begin, err := in.lines.Peek(MaxLine)
	if err != nil && err != io.EOF {
		return nil, in.failed(err)
	}
	all := bytes.Split(begin, []byte("\n"))
	if err == nil {
		all = all[:len(all)-1] // the last one goes on, or may
	}
	var sample [][]byte
	for _, line := range all {
		if line = trim(line); len(line) > 0 && len(sample) < sampleLines {
			sample = append(sample, line)
		}
	}
	if err == nil && len(sample) == 0 {
		return nil, in.failed(errors.New("no line in its first 64 KB to tell its format by; want an access log, or its format"))
	}
	return sample, nil
}

// next returns the next line that is not empty, a view that holds until the one after it is read. It returns tooLong
// for one that is, and io.EOF at the end.
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
		text := trim(line)
		if err == bufio.ErrBufferFull || len(text) > MaxLine {
			text = bytes.Clone(text[:1<<10]) // the buffer is read into again
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

// release lets go of the memory that a log took which has come to its end.
func (in *input) release() { in.raw.from, in.lines, in.window = nil, nil, window{} }

// trim cuts off what ends a line, and blanks around it.
func trim(line []byte) []byte {
	for len(line) > 0 && isBlank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	return line
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// failed says which log could not be read.
func (in *input) failed(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("accesslog: %w", err) // it says so already
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("accesslog: %s: it ends in the middle of what is compressed: %w", in.name, err)
	}
	return fmt.Errorf("accesslog: %s: %w", in.name, err)
}
