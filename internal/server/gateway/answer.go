package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/syntax"
)

type problem struct {
	status        int
	word, message string
}

var (
	tokenProblem     = problem{http.StatusBadRequest, "bad_request", "The method is not a token."}
	unusualProblem   = problem{http.StatusBadRequest, "bad_request", "The path has a backslash, or the request has a #: encode them as %5C and %23."}
	ambiguousProblem = problem{http.StatusBadRequest, "bad_request", "The path has dot segments, or the host, the query or the encoding is malformed."}
	requestProblem   = problem{http.StatusBadRequest, "bad_request", "The request is malformed."}
	routeProblem     = problem{http.StatusNotFound, "no_route", "There is nothing here."}
	methodProblem    = problem{http.StatusMethodNotAllowed, "method_not_allowed", "This is not a forward proxy."}
	slowProblem      = problem{http.StatusRequestTimeout, "request_timeout",
		"The body of the request did not arrive in time."}
	sizeProblem     = problem{http.StatusRequestEntityTooLarge, "too_large", "The body of the request is too large."}
	goneProblem     = problem{syntax.StatusClientGone, "client_gone", "The client did not wait for the response."}
	upstreamProblem = problem{http.StatusBadGateway, "bad_gateway", "The upstream did not send a valid response."}
	timeoutProblem  = problem{http.StatusGatewayTimeout, "gateway_timeout", "The upstream did not answer in time."}
)

// fail answers a request that the gateway could not forward, or whose response it could not
// forward.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	x := stateOf(r.Context())
	if x.conn != nil { // no HTTP answer is possible after an upgrade
		x.cause = err
		return
	}
	x.answer(w, x.blame(err), err)
}

// blame returns the problem to report for err. It checks first whether the client caused the error,
// because a request that failed because of its client must not be refunded.
func (x *requestState) blame(err error) *problem {
	if x.body != nil {
		if failure := x.body.failure.Load(); failure != nil {
			var tooLarge *http.MaxBytesError
			switch {
			case errors.As(*failure, &tooLarge):
				return &sizeProblem
			case isTimeout(*failure):
				return &slowProblem
			case x.isGone(*failure):
				return &goneProblem
			}
			return &requestProblem
		}
	}
	switch {
	case errors.Is(x.request.Context().Err(), context.Canceled):
		return &goneProblem
	case !x.rewritten: // the Upgrade field was refused
		return &requestProblem
	case isTimeout(err):
		return &timeoutProblem
	}
	return &upstreamProblem
}

// isGone reports whether failure, an error from reading the body, means that the client went away.
func (x *requestState) isGone(failure error) bool {
	var broken *net.OpError
	return errors.Is(failure, io.ErrUnexpectedEOF) || errors.As(failure, &broken) ||
		errors.Is(x.request.Context().Err(), context.Canceled)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (x *requestState) answer(w http.ResponseWriter, p *problem, cause error) {
	x.cause, x.id = cause, rand.Text()
	maps.Copy(w.Header(), x.fields) // forwarding an informational response clears them
	answer.JSON(w, p.status, struct {
		answer.Problem
		RequestID string `json:"request_id"`
	}{answer.Problem{Error: p.word, Message: p.message}, x.id})
}
