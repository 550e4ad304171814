package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// errReply is in the error of a reply that does not belong to its call or cannot be read.
var errReply = errors.New("unexpected reply from Redis")

func badReply(what string) error { return fmt.Errorf("%w: %s", errReply, what) }

// serverError is an error of the server that reached us inside of a reply.
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

// clockWord begins the error of a script that was sent other periods of a calendar than those
// around the server's clock, which follows it.
const clockWord = "CLOCK"

// kinds are the words that errors of the server begin with. Inside of a script, or behind a proxy,
// something else may stand before them.
var kinds = []struct {
	word string
	kind string
}{
	{"NOAUTH", errkind.Auth},
	{"WRONGPASS", errkind.Auth},
	{"NOPERM", errkind.Auth},
	{"OOM", errkind.Full},
	{"READONLY", errkind.ReadOnly},
	{"LOADING", errkind.Busy},
	{"BUSY", errkind.Busy},
	{"CLUSTERDOWN", errkind.Busy},
	{"MASTERDOWN", errkind.Busy},
	{"TRYAGAIN", errkind.Migrating},
	{"NOREPLICAS", errkind.Busy},
	{"MISCONF", errkind.Busy},
	{clockWord, errkind.Busy},
}

// failureKind returns the kind of failure that an error of a server, or of the way to it, is.
func failureKind(err error) string {
	var timeout net.Error
	var inside serverError
	var refused *rueidis.RedisError // maybe among others: those of the subjects of one request
	switch {
	case errors.As(err, &refused) && !refused.IsNil():
		return kindOfText(refused.Error())
	case errors.As(err, &inside):
		return kindOfText(string(inside))
	case errors.Is(err, errReply), rueidis.IsParseErr(err):
		return errkind.Reply
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errLate),
		errors.As(err, &timeout) && timeout.Timeout():
		return errkind.Timeout
	case errors.Is(err, context.Canceled), errors.Is(err, ErrNameKey):
		return errkind.Other
	}
	return errkind.Unreachable
}

// moving reports whether a call was refused because its slot of a Cluster is being moved: nothing
// ran.
func moving(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && refused.IsTryAgain()
}

func kindOfText(text string) string {
	for _, k := range kinds {
		if strings.HasPrefix(text, k.word) || strings.Contains(text, " "+k.word+" ") ||
			strings.Contains(text, "-"+k.word+" ") {
			return k.kind
		}
	}
	// How scripts of Redis 7, and of 6.2, say NOPERM.
	for _, words := range []string{"The user executing the script can't run", "ACL failure in script"} {
		if strings.Contains(text, words) {
			return errkind.Auth
		}
	}
	return errkind.Other
}
