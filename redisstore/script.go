package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one of the verbs: the files it needs, joined in order.
type script struct {
	source, sha string
}

// The files that every script has before its own. See lua/prelude.lua.
var shared = []string{"prelude", "shared", "bookings", "log", "bucket", "concurrency", "limit", "ban", "ids", "close"}

func joinScript(verb string) *script {
	var b strings.Builder
	for _, name := range append(shared[:len(shared):len(shared)], verb) {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // an embedded file is missing: the build is broken
		}
		b.Write(text)
	}
	source := b.String()
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// run calls the script. It sends the call a second time only if the reply proves
// that nothing ran the first time: the script was unknown, or its slot is just
// moving between two nodes.
func (s *script) run(ctx context.Context, client rueidis.Client, keys, args []string) (string, error) {
	reply, err := s.send(ctx, client, "EVALSHA", s.sha, keys, args)
	if refused, ok := rueidis.IsRedisErr(err); ok && (refused.IsNoScript() || refused.IsTryAgain()) {
		reply, err = s.send(ctx, client, "EVAL", s.source, keys, args)
	}
	return reply, err
}

func (s *script) send(ctx context.Context, client rueidis.Client, command, body string, keys, args []string) (string, error) {
	cmd := client.B().Arbitrary(command).Args(body, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
	reply, err := client.Do(ctx, cmd).ToString()
	if rueidis.IsRedisNil(err) {
		err = errReply("an empty reply")
	}
	return reply, err
}

// ErrReply is in the error of a reply that does not belong to its call or cannot be
// read.
var ErrReply = errors.New("unexpected reply from Redis")

func errReply(what string) error { return fmt.Errorf("%w: %s", ErrReply, what) }
