package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// doTimeout bounds one command, so that a paused server fails a test instead of
// hanging it.
const doTimeout = 10 * time.Second

// CLI sends one command on a connection of its own and returns the reply as
// redis-cli prints it to a pipe: one element of an array per line, an empty
// line for nil. An error, of the server or of the connection, fails the test.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("redistest: %s: %s: %v", s.Addr(), strings.Join(args, " "), err)
	}
	return reply
}

// Do is [Server.CLI] for those who expect an error, and for any goroutine.
func (s *Server) Do(args ...string) (string, error) {
	var conn net.Conn
	var err error
	dialer := &net.Dialer{Timeout: doTimeout}
	if s.tls != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr(), s.tls)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr())
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(doTimeout)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if s.password != "" {
		if _, err := roundTrip(conn, r, "AUTH", s.password); err != nil {
			return "", err
		}
	}
	return roundTrip(conn, r, args...)
}

func roundTrip(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one reply of RESP2.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("empty line in place of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		buf := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r, buf)
		return string(buf[:n]), err
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		elems := make([]string, n)
		for i := range elems {
			if elems[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return strings.Join(elems, "\n"), nil
	default:
		return "", fmt.Errorf("unknown reply %q", line)
	}
}
