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
)

// ErrReply is in the error of a reply that does not belong to its call or cannot be
// read.
var ErrReply = errors.New("unexpected reply from Redis")

func errReply(what string) error { return fmt.Errorf("%w: %s", ErrReply, what) }

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
	return &stint.StoreError{Op: op, Kind: KindOf(err), Err: err}
}

// kinds are the words that errors of the server begin with. Inside of a script, or
// behind a proxy, something else may stand before them.
var kinds = []struct {
	word string
	kind stint.ErrorKind
}{
	{"NOAUTH", stint.KindAuth},
	{"WRONGPASS", stint.KindAuth},
	{"NOPERM", stint.KindAuth},
	{"OOM", stint.KindFull},
	{"READONLY", stint.KindReadOnly},
	{"LOADING", stint.KindBusy},
	{"BUSY", stint.KindBusy},
	{"CLUSTERDOWN", stint.KindBusy},
	{"MASTERDOWN", stint.KindBusy},
	{"TRYAGAIN", stint.KindMigrating},
	{"NOREPLICAS", stint.KindBusy},
	{"MISCONF", stint.KindBusy},
}

// KindOf returns the kind of failure that an error of a server, or of the way to it, is: those of calls to a [Store] tell it
// themselves, those of [Open] and [New] do not.
func KindOf(err error) stint.ErrorKind {
	var timeout net.Error
	var inside serverError
	var refused *rueidis.RedisError // maybe among others: those of the subjects of one request
	switch {
	case errors.As(err, &refused) && !refused.IsNil():
		return kindOfText(refused.Error())
	case errors.As(err, &inside):
		return kindOfText(string(inside))
	case errors.Is(err, ErrReply), rueidis.IsParseErr(err):
		return stint.KindReply
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errLate),
		errors.As(err, &timeout) && timeout.Timeout():
		return stint.KindTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, ErrNameKey):
		return stint.KindOther
	}
	return stint.KindUnreachable
}

func kindOfText(text string) stint.ErrorKind {
	for _, k := range kinds {
		if strings.HasPrefix(text, k.word) || strings.Contains(text, " "+k.word+" ") || strings.Contains(text, "-"+k.word+" ") {
			return k.kind
		}
	}
	// How scripts of Redis 7, and of 6.2, say NOPERM.
	for _, words := range []string{"The user executing the script can't run", "ACL failure in script"} {
		if strings.Contains(text, words) {
			return stint.KindAuth
		}
	}
	return stint.KindOther
}
