package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The body is sent only if the upstream asks for it.
func TestExpectContinue(t *testing.T) {
	u := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		head := readHead(r)
		if !strings.Contains(head, "Expect: 100-continue\r\n") {
			io.WriteString(conn, "HTTP/1.1 500 No Expect\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if strings.HasPrefix(head, "POST /no") {
			io.WriteString(conn, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 4)
		io.ReadFull(r, body)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"+string(body))
	})
	g := front(t, open, u)
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"

	conn := dial(t, g.Listener.Addr().String())
	answers := bufio.NewReader(conn)
	io.WriteString(conn, "POST /yes"+head)
	if line := readHead(answers); !strings.HasPrefix(line, "HTTP/1.1 100 Continue\r\n") {
		t.Fatalf("got %q, want 100", line)
	}
	io.WriteString(conn, "body")
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "body" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}

	conn = dial(t, g.Listener.Addr().String())
	io.WriteString(conn, "POST /no"+head)
	if line := readHead(bufio.NewReader(conn)); !strings.HasPrefix(line, "HTTP/1.1 417 ") {
		t.Errorf("got %q, want 417 and no 100", line)
	}
}
