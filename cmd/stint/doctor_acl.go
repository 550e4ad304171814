package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// attempt is a command that stint or its scripts use, with arguments for testing, and the
// permission that it requires.
type attempt struct {
	permission string
	args       []string
}

// attempts returns all commands that stint needs to decide. They use channel, key and keys that
// begin with key. DEL comes after the commands that write, so it deletes all their keys.
func attempts(key, channel string) []attempt {
	const noScript = "0000000000000000000000000000000000000000"
	log, hash := key+":log", key+":hash"
	return []attempt{
		{"+ping", []string{"PING"}},
		{"+time", []string{"TIME"}},
		{"+eval", []string{"EVAL", "return 1", "1", key}},
		{"+evalsha", []string{"EVALSHA", noScript, "1", key}},
		{"+set", []string{"SET", key, "x", "PX", "60000"}},
		{"+get", []string{"GET", key}},
		{"+getrange", []string{"GETRANGE", key, "0", "0"}},
		{"+setrange", []string{"SETRANGE", key, "0", "y"}},
		{"+pttl", []string{"PTTL", key}},
		{"+zadd", []string{"ZADD", log, "1", "a"}},
		{"+pexpire", []string{"PEXPIRE", log, "60000"}},
		{"+zincrby", []string{"ZINCRBY", log, "1", "a"}},
		{"+zcard", []string{"ZCARD", log}},
		{"+zcount", []string{"ZCOUNT", log, "0", "9"}},
		{"+zscore", []string{"ZSCORE", log, "a"}},
		{"+zrange", []string{"ZRANGE", log, "0", "-1"}},
		{"+zrangebyscore", []string{"ZRANGEBYSCORE", log, "0", "9"}},
		{"+zremrangebyscore", []string{"ZREMRANGEBYSCORE", log, "0", "0"}},
		{"+zremrangebyrank", []string{"ZREMRANGEBYRANK", log, "5", "5"}},
		{"+zrem", []string{"ZREM", log, "a"}},
		{"+hset", []string{"HSET", hash, "a", "b"}},
		{"+hsetnx", []string{"HSETNX", hash, "a", "b"}},
		{"+hget", []string{"HGET", hash, "a"}},
		{"+hlen", []string{"HLEN", hash}},
		{"+hexists", []string{"HEXISTS", hash, "a"}},
		{"+hscan", []string{"HSCAN", hash, "0"}},
		{"+hgetall", []string{"HGETALL", hash}},
		{"+hdel", []string{"HDEL", hash, "a"}},
		{"+del", []string{"DEL", key, log, hash}},
		{"+publish", []string{"PUBLISH", channel, ""}}, // a message with no readers
	}
}

// connectionCommands are the permissions to open connections, and to begin and end subscriptions.
var connectionCommands = []string{"+hello", "+auth", "+client|setname", "+subscribe", "+unsubscribe"}

// allPermissions returns the permissions that a user needs for stint to decide.
func allPermissions(prefix string) []string {
	list := []string{"~" + prefix + ":*", "&" + prefix + ":room"}
	for _, a := range attempts("", "") {
		list = append(list, a.permission)
	}
	return append(list, connectionCommands...)
}

// permissions tries all commands that stint uses, and reports the permissions that the user lacks.
func (e *redisDiagnosis) permissions(ctx context.Context) {
	key, channel := e.prefix+":{doctor}:"+e.user, e.prefix+":room"
	if missing := e.missing(ctx, channel, attempts(key, channel)); len(missing) > 0 {
		e.found.fail("permissions", fmt.Sprintf("the user %q lacks %s", e.user, strings.Join(missing, " ")),
			e.grant(missing))
	} else {
		e.found.ok("permissions", "the user %q has all permissions that decisions require", e.user)
	}
	if missing := e.missing(ctx, channel, inspectionCommands()); len(missing) > 0 {
		e.found.warn("looking", fmt.Sprintf("bans and the state of Redis can be shown only in part: the user %q lacks %s",
			e.user, strings.Join(missing, " ")),
			e.grant(missing))
	}
}

// inspectionCommands returns the commands that are needed to list bans and to show the state of
// Redis, but not to decide.
func inspectionCommands() []attempt {
	return []attempt{
		{"+scan", []string{"SCAN", "0", "COUNT", "1"}},
		{"+info", []string{"INFO", "server"}},
		{"+dbsize", []string{"DBSIZE"}},
	}
}

// missing tries commands, and returns the permissions that the user lacks for them.
func (e *redisDiagnosis) missing(ctx context.Context, channel string, list []attempt) []string {
	var missing []string
	need := func(permission string) {
		if !slices.Contains(missing, permission) {
			missing = append(missing, permission)
		}
	}
	for _, a := range list {
		refused, ok := rueidis.IsRedisErr(e.client.Do(ctx, e.client.B().Arbitrary(a.args...).Build()).Error())
		if !ok || !strings.HasPrefix(refused.Error(), "NOPERM") {
			continue
		}
		switch text := refused.Error(); {
		case strings.Contains(text, "channel"):
			need("&" + channel)
		case strings.Contains(text, " key"):
			need("~" + e.prefix + ":*")
		default:
			need(a.permission)
		}
	}
	return missing
}

func (e *redisDiagnosis) grant(permissions []string) string {
	quoted := make([]string, len(permissions))
	for i, p := range permissions {
		quoted[i] = p
		if strings.ContainsAny(p, "~*&|>") {
			quoted[i] = "'" + p + "'"
		}
	}
	return fmt.Sprintf("%s ACL SETUSER %s %s", e.cli, e.user, strings.Join(quoted, " "))
}
