package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// counted is the number of requests that were judged.
type counted struct{ atomic.Int64 }

func (c *counted) Observe(_ context.Context, event stint.Event) {
	if _, ok := event.(*policy.Verdict); ok {
		c.Add(1)
	}
}

// strict is an upstream that accepts nothing that two servers could read differently.
type strict struct {
	mu         sync.Mutex
	requests   []string // request lines
	violations []error
}

var (
	requestLine = regexp.MustCompile(`^[A-Z]+ /[!-~]* HTTP/1\.1$`)
	fieldLine   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\\t -~]*$")
	chunkLine   = regexp.MustCompile(`^[0-9a-f]+$`)
)

func (s *strict) handle(conn net.Conn, r *bufio.Reader) {
	for {
		line, err := s.request(r)
		if errors.Is(err, io.EOF) && line == "" {
			return
		}
		s.mu.Lock()
		if err != nil {
			s.violations = append(s.violations, fmt.Errorf("%q: %w", line, err))
		}
		s.requests = append(s.requests, line)
		s.mu.Unlock()
		if err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// request reads one request to its end.
func (s *strict) request(r *bufio.Reader) (first string, err error) {
	length, chunked := int64(0), false
	seen := map[string]bool{}
	for n := 0; ; n++ {
		line, err := strictLine(r)
		switch {
		case err != nil:
			return first, err
		case n == 0:
			first = line
			if !requestLine.MatchString(line) {
				return first, errors.New("no request line")
			}
			continue
		case line == "":
			if length > 0 && chunked {
				return first, errors.New("two lengths")
			}
			if chunked {
				return first, strictChunks(r)
			}
			_, err := io.CopyN(io.Discard, r, length)
			return first, err
		case !fieldLine.MatchString(line):
			return first, fmt.Errorf("no header field: %q", line)
		}
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		switch name {
		case "host", "content-length", "transfer-encoding":
			if seen[name] {
				return first, fmt.Errorf("twice: %s", name)
			}
			seen[name] = true
		}
		switch name {
		case "content-length":
			if length, err = strconv.ParseInt(value, 10, 64); err != nil ||
				!regexp.MustCompile(`^[0-9]+$`).MatchString(value) {
				return first, fmt.Errorf("no length: %q", value)
			}
		case "transfer-encoding":
			if chunked = value == "chunked"; !chunked {
				return first, fmt.Errorf("an unknown encoding: %q", value)
			}
		}
	}
}

func strictLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsAny(line, "\r\n\x00") {
		return line, fmt.Errorf("a bare CR, LF or NUL: %q", line)
	}
	return line, nil
}

func strictChunks(r *bufio.Reader) error {
	for {
		line, err := strictLine(r)
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(line, 16, 64)
		if err != nil || !chunkLine.MatchString(line) {
			return fmt.Errorf("no chunk: %q", line)
		}
		if size == 0 {
			for line != "" {
				if line, err = strictLine(r); err != nil {
					return err
				}
			}
			return nil
		}
		if _, err := io.CopyN(io.Discard, r, size); err != nil {
			return err
		}
		if line, err := strictLine(r); err != nil || line != "" {
			return fmt.Errorf("a chunk without an end: %q %w", line, err)
		}
	}
}

// For any shape of a request, the upstream sees as many requests as were judged, and each can be
// read in one way only.
func TestF32SmugglingShapes(t *testing.T) {
	const (
		hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
		head   = "POST / HTTP/1.1\r\nHost: x\r\n"
		chunks = "Transfer-Encoding: chunked\r\n"
	)
	for _, shape := range []struct {
		name, sent string
		judged     int // of the request, the hidden one and the last; those after one that is refused are not read
	}{
		{"TE and CL", head + "Content-Length: 4\r\n" + chunks + "\r\n0\r\n\r\n" + hidden, 3},
		{"CL and TE", head + chunks + "Content-Length: 40\r\n\r\n0\r\n\r\n" + hidden, 3},
		{"two CL", head + "Content-Length: 0\r\nContent-Length: 33\r\n\r\n" + hidden, 0},
		{"two equal CL", head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 2},
		{"list of CL", head + "Content-Length: 0, 33\r\n\r\n" + hidden, 0},
		{"signed CL", head + "Content-Length: +33\r\n\r\n" + hidden, 0},
		{"empty CL", head + "Content-Length: \r\n\r\n" + hidden, 0},
		{"CL with underscore", head + "Content_Length: 33\r\n\r\n" + hidden, 3},
		{"TE with underscore", head + "Transfer_Encoding: chunked\r\n\r\n" + hidden, 3},
		{"other TE", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, 0},
		{"TE in a list", head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden, 0},
		{"TE twice", head + chunks + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden, 0},
		{"TE with a tab", head + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + hidden, 3},
		{"TE with VT", head + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + hidden, 0},
		{"TE folded", head + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + hidden, 3},
		{"TE in HTTP/1.0", "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n" + chunks + "\r\n0\r\n\r\n" + hidden, 1},
		{"space before the colon", head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, 0},
		{"space before the name", "POST / HTTP/1.1\r\n Host: x\r\n" + chunks + "\r\n0\r\n\r\n" + hidden, 0},
		{"folded field", head + "X-A: 1\r\n Content-Length: 33\r\n\r\n" + hidden, 3},
		{"bare LF", "GET / HTTP/1.1\nHost: x\nX-A: 1\n\n" + hidden, 3},
		{"bare CR in a value", "GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\rContent-Length: 33\r\n\r\n" + hidden, 0},
		{"NUL in a value", "GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\x00\r\n\r\n", 0},
		{"no name", "GET / HTTP/1.1\r\nHost: x\r\n: 1\r\n\r\n", 0},
		{"no colon", "GET / HTTP/1.1\r\nHost: x\r\nX-A\r\n\r\n", 0},
		{"two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 0},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 0},
		{"bad host", "GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 0},
		{"absolute form", "GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", 2},
		{"bad method", "GE\"T / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
		{"space in the target", "GET /a HTTP/1.1\r\n b HTTP/1.1\r\nHost: x\r\n\r\n", 0},
		{"HTTP/0.9", "GET /\r\n\r\n", 0},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 2},
		{"chunk extension", head + chunks + "\r\n1;a=b\r\nx\r\n0\r\n\r\n", 2},
		{"chunk extension with LF", head + chunks + "\r\n1;a=b\nx\r\n0\r\n\r\n" + hidden, 1},
		{"chunk size with a prefix", head + chunks + "\r\n0x1\r\nx\r\n0\r\n\r\n", 1},
		{"negative chunk", head + chunks + "\r\n-1\r\nx\r\n0\r\n\r\n", 1},
		{"enormous chunk", head + chunks + "\r\nfffffffffffffffff\r\nx\r\n0\r\n\r\n", 1},
		{"chunk without an end", head + chunks + "\r\n1\r\nxx\r\n0\r\n\r\n" + hidden, 1},
		{"length in a trailer", head + chunks + "Trailer: X-A\r\n\r\n0\r\nX-A: 1\r\nContent-Length: 33\r\n\r\n" + hidden, 3},
		{"announced length in a trailer", head + chunks + "Trailer: Content-Length\r\n\r\n0\r\nContent-Length: 33\r\n\r\n" + hidden, 0},
		{"body of a GET", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 33\r\n\r\n" + hidden, 2},
		{"Connection names the length", head + "Connection: Content-Length\r\nContent-Length: 33\r\n\r\n" + hidden, 2},
		{"Connection names the encoding", head + "Connection: Transfer-Encoding\r\n" + chunks +
			"\r\n0\r\n\r\n" + hidden, 3},
	} {
		t.Run(shape.name, func(t *testing.T) {
			up := &strict{}
			guard, judged := judging(t)
			s := serve(t, gatewayOver(t, guard, to(rawUpstream(t, up.handle))))
			answers := ask(t, s, shape.sent+"GET /last HTTP/1.1\r\nHost: x")
			s.Close() // every request is done
			up.mu.Lock()
			defer up.mu.Unlock()
			n := int(judged.Load())
			if n != shape.judged {
				t.Errorf("%d requests were judged, want %d: %s", n, shape.judged, answers)
			}
			// What breaks off in the middle of its body is refused: the upstream never has all of
			// it.
			refused := strings.Count(answers, `"error":"bad_request"`)
			if len(up.violations) > refused || len(up.requests)-len(up.violations) > n-refused {
				t.Errorf("%d requests were judged, %d refused, and the upstream had %q: %v", n, refused, up.requests, up.violations)
			}
			for _, err := range up.violations {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Error(err)
				}
			}
		})
	}
}
