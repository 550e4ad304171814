package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// errReply is in the error chain of a call whose reply belongs to another call or cannot be read.
var errReply = errors.New("unexpected reply from Redis")

func badReply(what string) error { return fmt.Errorf("%w: %s", errReply, what) }

// serverError is an error that the server reported inside a reply.
type serverError string

func (e serverError) Error() string { return string(e) }

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*stint.InvalidError); ok {
		return err
	}
	return &stint.StoreError{Op: op, Kind: failureKind(err), Err: err}
}

// wrap adds the operation to an error. It also replaces the client if a server has become a
// replica, or if a call received the reply to another call, because all later calls on that
// connection would receive wrong replies, too.
func (s *Store) wrap(op string, err error) error {
	s.learnPeriods(err)
	err = wrap(op, err)
	failure, ok := err.(*stint.StoreError)
	switch {
	case !ok:
	case failure.Kind == stint.KindReadOnly, failure.Kind == stint.KindReply:
		s.conn.renew()
	case failure.Kind == stint.KindUnreachable && s.cluster && op != "ping" && op != "info": // ping and info ask all nodes
		failure.Err = &errkind.NodeError{Err: failure.Err}
	}
	return err
}

// failureKind returns the kind of an error from a server or from the network.
func failureKind(err error) stint.StoreErrorKind {
	var timeout net.Error
	var inside serverError
	var refused *rueidis.RedisError // possibly joined with the errors of other subjects of the request
	switch {
	case errors.As(err, &refused) && !refused.IsNil():
		kind, _ := errkind.OfReply(refused.Error())
		return kind
	case errors.As(err, &inside):
		kind, _ := errkind.OfReply(string(inside))
		return kind
	case errors.Is(err, errReply), rueidis.IsParseErr(err):
		return stint.KindReply
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errLate),
		errors.As(err, &timeout) && timeout.Timeout():
		return stint.KindTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, ErrNameKey):
		return stint.KindOther
	}
	return stint.KindUnreachable
}

// moving reports whether a call was refused because its Cluster slot is being moved. In that case
// nothing ran.
func moving(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && refused.IsTryAgain()
}
