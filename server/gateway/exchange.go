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

// exchange is a request and its response on the way through the gateway. It is the ResponseWriter that the middleware
// is given.
type exchange struct {
	http.ResponseWriter
	gateway *Gateway
	plan    *plan
	request *http.Request // as it came
	peer    netip.Addr
	began   time.Time
	watch   stall.Watch

	// verdict is nil if there was none: the store failed, or the request is malformed.
	verdict *policy.Verdict
	limited bool
	policy  string // that limited it
	route   *route
	// forwarded is where the response of the upstream is written, and fields is what was said about limits.
	forwarded http.ResponseWriter
	fields    http.Header
	body      *body
	upgrade   bool
	rewritten bool

	status      int
	bytes       int64
	writeFailed bool
	returned    bool     // all handlers have; otherwise the response is aborted
	conn        net.Conn // of a client that was upgraded
	cause       error
	id          string
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, gateway: g, plan: g.planOf(g.guard.Set()), request: r, peer: clientip.PeerOf(r), began: time.Now()}
	x.watch.Init(w, x.plan.sendTimeout, nil)
	x.setWriteDeadline(time.Time{})
	return x
}

// setWriteDeadline takes the place of the server's WriteTimeout, which is for the whole of a response. Not every writer has
// deadlines, and those that have none do without.
func (x *exchange) setWriteDeadline(at time.Time) {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(at)
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a request belongs to.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// abandoned reports whether the client went away before the end of the response.
func (x *exchange) abandoned() bool {
	return !x.returned && (x.writeFailed || x.request.Context().Err() != nil)
}

// end is the last that is done for a request, also if it panics.
func (x *exchange) end() {
	if x.conn != nil {
		x.gateway.upgraded.remove(x.conn)
	}
	if x.watch.Ended() {
		x.cause = errStalled
	}
	x.log()
	if x.body != nil {
		x.leaveBody()
	}
	x.watch.Stop()
	if x.conn == nil && x.request.ProtoMajor == 1 {
		x.setWriteDeadline(time.Now().Add(x.plan.sendTimeout)) // for what the server has not sent yet
	}
}

var errStalled = errors.New("gateway: the client took nothing of the response for too long")

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements [http.ResponseWriter]. A 100 is not passed on: net/http sends one itself as soon as the body is
// wanted, which is when the upstream has sent its own. A response that begins before the body of the request has ended is the last
// on its connection: what remains of the body must not be taken for another request.
func (x *exchange) WriteHeader(status int) {
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
	x.watch.Begin() // an informational response is sent at once
	x.ResponseWriter.WriteHeader(status)
	x.watch.End()
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.watch.Begin()
	n, err := x.ResponseWriter.Write(p)
	x.watch.End()
	if x.request.Method != http.MethodHead { // then nothing is sent
		x.bytes += int64(n)
	}
	if err != nil {
		x.writeFailed = true
	}
	return n, err
}

// Flush implements [http.Flusher].
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is for [http.ResponseController].
func (x *exchange) FlushError() error {
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

// Hijack implements [http.Hijacker]. What is sent from then on is not counted.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn = stall.Conn(conn, x.plan.sendTimeout)
	buffer.Writer.Reset(conn)
	if err := x.gateway.upgraded.add(conn); err != nil {
		conn.Close()
		return nil, nil, err
	}
	x.conn, x.status = conn, http.StatusSwitchingProtocols
	return conn, buffer, nil
}
