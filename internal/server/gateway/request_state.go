package gateway

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/stall"
	"github.com/stint-limiter/stint/policy"
)

// requestState is the state of a request and its response. It is also the ResponseWriter that the
// middleware receives.
type requestState struct {
	http.ResponseWriter
	gateway  *Gateway
	settings *settings
	request  *http.Request // as received
	peer     netip.Addr
	began    time.Time
	watch    stall.Watch

	// verdict is nil if the request is malformed or could not be decided.
	verdict *policy.Verdict
	limited bool
	policy  string // the policy that limited the request
	route   *route
	// forwarded receives the upstream's response. fields are the header fields that the middleware
	// has set.
	forwarded http.ResponseWriter
	fields    http.Header
	body      *body
	upgrade   bool
	rewritten bool

	status      int
	bytes       int64
	writeFailed bool
	returned    bool     // whether all handlers have returned, without a panic
	conn        net.Conn // set after an upgrade
	cause       error
	id          string
}

func newRequestState(g *Gateway, w http.ResponseWriter, r *http.Request) *requestState {
	x := &requestState{ResponseWriter: w, gateway: g, settings: g.settingsOf(g.guard.Set()), request: r,
		peer: clientip.PeerOf(r), began: time.Now()}
	x.watch.Init(w, x.settings.SendTimeout, nil)
	x.setWriteDeadline(time.Time{})
	return x
}

// SetReadDeadline is called by [http.ResponseController]. The middleware sets deadlines when it
// reads a body before the decision. SetReadDeadline ensures that no deadline is later than the body
// timeout. Otherwise, the server would wait forever for the rest of a body that is not forwarded.
func (x *requestState) SetReadDeadline(at time.Time) error {
	if patience := x.settings.BodyTimeout; patience > 0 {
		if last := x.began.Add(patience); at.IsZero() || at.After(last) {
			at = last
		}
	}
	return http.NewResponseController(x.ResponseWriter).SetReadDeadline(at)
}

// setWriteDeadline replaces the server's WriteTimeout, which would limit the whole response.
func (x *requestState) setWriteDeadline(at time.Time) {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(at)
}

type stateKey struct{}

func stateOf(ctx context.Context) *requestState { return ctx.Value(stateKey{}).(*requestState) }

// abandoned reports whether the client went away before the end of the response.
func (x *requestState) abandoned() bool {
	return !x.returned && (x.writeFailed || x.request.Context().Err() != nil)
}

// end finishes a request. It is called even if the handler panics.
func (x *requestState) end() {
	if x.conn != nil {
		x.gateway.upgraded.remove(x.conn)
	}
	if x.watch.Ended() {
		x.cause = errStalled
	}
	x.log()
	if x.body != nil {
		x.drainBody()
	}
	x.watch.Stop()
	if x.conn == nil && x.request.ProtoMajor == 1 {
		x.setWriteDeadline(time.Now().Add(x.settings.SendTimeout)) // the server may still have data to send
	}
}

var errStalled = errors.New("gateway: the client read nothing of the response for too long")

func (x *requestState) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements [http.ResponseWriter]. It drops status 100 from the upstream, because
// net/http sends its own status 100 when the body is first read. If an HTTP/1 response begins
// before the request's body has ended, WriteHeader makes the server close the connection after the
// response. Otherwise, the rest of the body could be read as another request.
func (x *requestState) WriteHeader(status int) {
	if status == http.StatusContinue {
		return
	}
	if x.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.status = status
		if x.body != nil {
			x.body.release()
			if x.request.ProtoMajor == 1 && !x.body.ended.Load() {
				x.Header().Set("Connection", "close")
			}
		}
	}
	x.watch.Begin() // an informational response is sent immediately, which may block
	x.ResponseWriter.WriteHeader(status)
	x.watch.End()
}

func (x *requestState) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.watch.Begin()
	n, err := x.ResponseWriter.Write(p)
	x.watch.End()
	if x.request.Method != http.MethodHead { // a HEAD request gets no body
		x.bytes += int64(n)
	}
	if err != nil {
		x.writeFailed = true
	}
	return n, err
}

func (x *requestState) Flush() { _ = x.FlushError() }

func (x *requestState) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.watch.Begin()
	err := http.NewResponseController(x.ResponseWriter).Flush()
	x.watch.End()
	if err != nil {
		x.writeFailed = true
	}
	return err
}

// Hijack implements [http.Hijacker]. The access log does not count the bytes sent over a hijacked
// connection.
func (x *requestState) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn = stall.Conn(conn, x.settings.SendTimeout)
	buffer.Writer.Reset(conn)
	if err := x.gateway.upgraded.add(conn); err != nil {
		conn.Close()
		return nil, nil, err
	}
	x.conn, x.status = conn, http.StatusSwitchingProtocols
	return conn, buffer, nil
}
