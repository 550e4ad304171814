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

// script is one of the scripts that Redis runs.
type script struct {
	source, sha string
	suffix      string // of the commands that call it
}

var (
	takeScript    = newScript("take")
	amendScript   = newScript("amend")
	commandScript = newScript("command")
	inspectScript = newScript("inspect")
	oneKeyScript  = newScript("onekey")
	presentScript = newScript("present")
	namesScript   = newScript("names")
)

// newScript joins a file and those that it includes.
func newScript(name string) *script {
	source := withNumbers(joined(name))
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by SHA-1.
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// include is a line of a file that another one replaces.
var include = regexp.MustCompile(`(?m)^-- @include (\w+)\n`)

// joined returns the text of a file, with the files that it includes.
func joined(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // an embedded file is missing: the build is broken
	}
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return joined(include.FindStringSubmatch(line)[1])
	})
}

// Where Lua gives names to numbers, and the tokens that may be such a name or hide one.
var (
	numberNames = regexp.MustCompile(`(?m)^local ([A-Z][A-Z_, ]*) = ([-0-9, ]+)(?: *--.*)?$`)
	luaTokens   = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|--[^\n]*|[A-Za-z_][A-Za-z_0-9]*`)
)

// numbersIn returns the numbers to which a source gives names.
func numbersIn(source string) map[string]string {
	numbers := map[string]string{}
	for _, line := range numberNames.FindAllStringSubmatch(source, -1) {
		values := strings.Split(line[2], ",")
		for i, name := range strings.Split(line[1], ", ") {
			numbers[name] = strings.TrimSpace(values[i])
		}
	}
	return numbers
}

// withNumbers replaces the names of numbers by the numbers, and leaves out comments. See
// lua/numbers.lua.
func withNumbers(source string) string {
	numbers := numbersIn(source)
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

// run calls a script that replies with text.
func (s *script) run(ctx context.Context, by caller, keys, args []string) (string, error) {
	return text(s.do(ctx, by, keys, args))
}

func text(answer rueidis.RedisResult) (string, error) {
	reply, err := answer.ToString()
	if rueidis.IsRedisNil(err) {
		err = badReply("an empty reply")
	}
	return reply, err
}

// do calls the script.
func (s *script) do(ctx context.Context, by caller, keys, args []string) rueidis.RedisResult {
	return s.elseWhole(ctx, by, by.Do(ctx, s.bySHA(by, keys, args)), keys, args)
}

// elseWhole returns the answer to a call by SHA, or that to a call with the whole script if the
// answer proves that nothing ran: the script was unknown.
func (s *script) elseWhole(ctx context.Context, by caller, answer rueidis.RedisResult,
	keys, args []string) rueidis.RedisResult {
	if refused, ok := rueidis.IsRedisErr(answer.Error()); ok && refused.IsNoScript() {
		return by.Do(ctx, s.whole(by, keys, args))
	}
	return answer
}

func (s *script) bySHA(by caller, keys, args []string) rueidis.Completed {
	return command(by, "EVALSHA"+s.suffix, s.sha, keys, args)
}

func (s *script) whole(by caller, keys, args []string) rueidis.Completed {
	return command(by, "EVAL"+s.suffix, s.source, keys, args)
}

func command(by caller, name, script string, keys, args []string) rueidis.Completed {
	return by.B().Arbitrary(name).Args(script, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

// readOnly is the script called so that it cannot write, from Redis 7 on.
func (s *script) readOnly() *script { return &script{s.source, s.sha, "_RO"} }
