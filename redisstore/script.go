package redisstore

import (
	"bytes"
	"context"
	"crypto/sha1" // Redis names scripts by SHA-1.
	"embed"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

type script struct{ source, sha string }

// A script is the concatenated text of several files in the directory lua. The constants list the
// files. "f(a,b" begins a function f with the parameters a and b, and ")x" ends the function with
// "return x". The files between them are the body of the function. Redis creates every function of
// a script again at each call, which takes time. So functions that a plain take does not need are
// nested in such a function, which creates them only when it is called.
//
// Each script ends with the file that it is named after. That file documents KEYS, ARGV and the
// reply, and its last lines run the script.
const (
	stateFiles   = "start sets make_limits( limits )limits state charge "
	wholeFiles   = "make_whole( whole entries held bookings save "
	bansFiles    = "make_bans( bans )bans "
	idsFiles     = "make_ids( ids )ids "
	holdersFiles = "make_holders( holders )holders "
	decideFiles  = "make_decide(args,sets,now,generation,base base bounds holds modules " +
		bansFiles + idsFiles + holdersFiles + wholeFiles + "settle whole_settle waiting )W decide )decide_run "
)

var (
	takeScript  = newScript(stateFiles + decideFiles + "take")
	amendScript = newScript(stateFiles + "bounds modules settle holds amend_holds " + wholeFiles +
		"whole_settle whole_holds )W " + idsFiles + holdersFiles + "resets amend")
	commandScript = newScript(stateFiles + "bounds modules " + wholeFiles + ")W " + bansFiles + "resets command")
	inspectScript = newScript(stateFiles + "bounds modules " + wholeFiles + "whole_inspect )W " + bansFiles +
		holdersFiles + "inspect")
	presentScript = newScript("present")
	tableScript   = newScript("table")
)

// newScript joins files. It removes comments, and replaces the names in numbers.lua with their
// values.
func newScript(files string) *script {
	var joined strings.Builder
	numbers := numbersIn(file("numbers"))
	for _, name := range strings.Fields(files) {
		if strings.Contains(name, "(") {
			joined.WriteString("local function " + name + ")\n")
		} else if result, ends := strings.CutPrefix(name, ")"); ends {
			joined.WriteString("return " + result + "\nend\n")
		} else {
			joined.WriteString(fold(file(name), numbers))
		}
	}
	source := joined.String()
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

func file(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // an embedded file is missing: the build is broken
	}
	return string(text)
}

// numbersIn returns the numbers that a source defines in lines such as: local A, B = 1, 2.
func numbersIn(source string) map[string]string {
	numbers := map[string]string{}
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, " --")
		names, values, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if names, ok := strings.CutPrefix(names, "local "); ok {
			list := strings.Split(values, ", ")
			for i, name := range strings.Split(names, ", ") {
				numbers[name] = strings.TrimSpace(list[i])
			}
		}
	}
	return numbers
}

// fold replaces the names in numbers with their values, and removes comments and " + 0".
func fold(source string, numbers map[string]string) string {
	var out []byte
	for source != "" {
		n := 1 // length of the token
		switch c := source[0]; {
		case strings.HasPrefix(source, "--"):
			source = source[strings.IndexByte(source, '\n'):]
			continue
		case c == '\'':
			n = 2 + strings.IndexByte(source[1:], '\'')
		case isLetter(c):
			for n < len(source) && isLetter(source[n]) {
				n++
			}
		}
		token := source[:n]
		if number, ok := numbers[token]; ok {
			token = number
		}
		if sum, ok := bytes.CutSuffix(out, []byte(" + ")); ok && token == "0" {
			out, token = sum, ""
		}
		out = append(out, token...)
		source = source[n:]
	}
	return string(out)
}

// isLetter reports whether a name may contain the character.
func isLetter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// run calls a script whose reply is a string.
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

// do runs the script by its SHA-1 digest. If the server does not know the digest, it has not run
// the script, so do sends the source instead.
func (s *script) do(ctx context.Context, by caller, keys, args []string) rueidis.RedisResult {
	answer := by.Do(ctx, s.bySHA(by, keys, args))
	if refused, ok := rueidis.IsRedisErr(answer.Error()); ok && refused.IsNoScript() {
		return by.Do(ctx, s.whole(by, keys, args))
	}
	return answer
}

func (s *script) bySHA(by caller, keys, args []string) rueidis.Completed {
	return command(by, "EVALSHA", s.sha, keys, args)
}

func (s *script) whole(by caller, keys, args []string) rueidis.Completed {
	return command(by, "EVAL", s.source, keys, args)
}

func command(by caller, name, script string, keys, args []string) rueidis.Completed {
	return by.B().Arbitrary(name).Args(script, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}
