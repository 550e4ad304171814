package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1.
	"embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one of the verbs: the files it needs, joined in order.
type script struct {
	source, sha string
	suffix      string // of the commands that call it
}

// The files that scripts which know limits have before their own, and those of the general
// path, see lua/shared.lua: a function that makes its parts.
var (
	begin   = []string{"fields", "start", "sets"}
	general = []string{"shared", "bookings", "log", "meter", "state", "concurrency", "ban", "ids", "decide"}
)

var (
	takeScript    = limitScript("take")
	amendScript   = limitScript("amend")
	commandScript = limitScript("command")
	inspectScript = limitScript("inspect")
	apartScript   = limitScript("apart")
	presentScript = newScript(source("present"))
	namesScript   = newScript(source("names"))
)

// limitScript is a script that knows limits.
func limitScript(name string) *script {
	return newScript(withNumbers("local function general(now, generation, sets)\n" + source(general...) + "return G\nend\n" + source(append(begin, name)...)))
}

// Where lua/fields.lua gives numbers names, and what else may hold such a name.
var (
	numberNames = regexp.MustCompile(`(?m)^local ([A-Z_0-9, ]+) =\s+([0-9, ]+)$`)
	luaTokens   = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|--[^\n]*|[A-Za-z_][A-Za-z_0-9]*`)
)

// withNumbers replaces the names of numbers by the numbers, and leaves out comments.
func withNumbers(source string) string {
	numbers := map[string]string{}
	for _, line := range numberNames.FindAllStringSubmatch(source, -1) {
		values := strings.Split(line[2], ", ")
		for i, name := range strings.Split(line[1], ", ") {
			numbers[name] = values[i]
		}
	}
	source = numberNames.ReplaceAllString(source, "")
	return luaTokens.ReplaceAllStringFunc(source, func(token string) string {
		if strings.HasPrefix(token, "--") {
			return ""
		}
		if number, ok := numbers[token]; ok {
			return number
		}
		return token
	})
}

// source returns the text of files.
func source(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // an embedded file is missing: the build is broken
		}
		b.Write(text)
	}
	return b.String()
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// run calls a script that replies with text.
func (s *script) run(ctx context.Context, client rueidis.Client, keys, args []string) (string, error) {
	reply, err := s.do(ctx, client, keys, args).ToString()
	if rueidis.IsRedisNil(err) {
		err = errReply("an empty reply")
	}
	return reply, err
}

// do calls the script. It sends the call again only if the reply proves that nothing ran: the
// script was unknown.
func (s *script) do(ctx context.Context, client rueidis.Client, keys, args []string) rueidis.RedisResult {
	answer := client.Do(ctx, s.bySHA(client, keys, args))
	if refused, ok := rueidis.IsRedisErr(answer.Error()); ok && refused.IsNoScript() {
		answer = client.Do(ctx, s.whole(client, keys, args))
	}
	return answer
}

func (s *script) bySHA(client rueidis.Client, keys, args []string) rueidis.Completed {
	return client.B().Arbitrary("EVALSHA"+s.suffix).Args(s.sha, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

func (s *script) whole(client rueidis.Client, keys, args []string) rueidis.Completed {
	return client.B().Arbitrary("EVAL"+s.suffix).Args(s.source, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

// readOnly is the script called such that it cannot write, from Redis 7 on.
func (s *script) readOnly() *script { return &script{s.source, s.sha, "_RO"} }
