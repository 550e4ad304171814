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

// doTimeout is the time limit for one command. With it, a paused server fails a test instead of
// hanging it.
const doTimeout = 10 * time.Second

// CLI sends one command on a new connection and returns the reply in the form that redis-cli prints
// to a pipe: one array element per line, an empty line for nil. A server or connection error fails
// the test.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	return text(s.mustDo(t, args))
}

// Do is like [Server.CLI], but returns an error instead of failing a test. It may be called from
// any goroutine.
func (s *Server) Do(args ...string) (string, error) {
	replies, err := s.pipeline(args)
	if err != nil {
		return "", err
	}
	return text(replies[0]), nil
}

// list is like [Server.CLI] for a command with an array reply. It returns the elements, which may
// contain any bytes.
func (s *Server) list(t testing.TB, args ...string) []string {
	t.Helper()
	return texts(s.mustDo(t, args))
}

func (s *Server) mustDo(t testing.TB, args []string) any {
	t.Helper()
	replies, err := s.pipeline(args)
	if err != nil {
		t.Fatalf("redistest: %s: %s: %v", s.Addr(), strings.Join(args, " "), err)
	}
	return replies[0]
}

// pipeline sends commands on a new connection and returns their replies, each a string or a slice
// of replies. If a reply is an error, pipeline returns that error.
func (s *Server) pipeline(commands ...[]string) ([]any, error) {
	var conn net.Conn
	var err error
	dialer := &net.Dialer{Timeout: doTimeout}
	if s.tls != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", s.Addr(), s.tls)
	} else {
		conn, err = dialer.Dial("tcp", s.Addr())
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(doTimeout)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	if s.password != "" {
		commands = append([][]string{{"AUTH", s.password}}, commands...)
	}
	if _, err := io.WriteString(conn, encode(commands...)); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		if replies[i], err = readReply(r); err != nil {
			return nil, err
		}
		if err, failed := replies[i].(error); failed {
			return nil, err
		}
	}
	if s.password != "" {
		replies = replies[1:]
	}
	return replies, nil
}

func encode(commands ...[]string) string {
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	return b.String()
}

// readReply reads one RESP2 reply. If the reply is an error, that error is the first result. The
// second result is an error of the connection or of the protocol.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line in place of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return errors.New(rest), nil
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		if kind == '$' {
			buf := make([]byte, n+len("\r\n"))
			_, err = io.ReadFull(r, buf)
			return string(buf[:n]), err
		}
		elems := make([]any, n)
		for i := range elems {
			if elems[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return elems, nil
	default:
		return nil, fmt.Errorf("unknown reply %q", line)
	}
}

// text formats a reply as redis-cli prints it to a pipe.
func text(reply any) string {
	if _, isArray := reply.([]any); isArray {
		return strings.Join(texts(reply), "\n")
	}
	return fmt.Sprint(reply)
}

func texts(reply any) []string {
	elems, _ := reply.([]any)
	list := make([]string, len(elems))
	for i, elem := range elems {
		list[i] = text(elem)
	}
	return list
}
