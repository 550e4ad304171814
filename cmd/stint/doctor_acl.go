package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// decisionCommands returns all commands that stint and its scripts use to decide, with arguments
// for a test. The commands use the given channel, the given key, and keys that have it as a prefix.
// DEL comes after the commands that write, to delete the keys that they create.
func decisionCommands(key, channel string) [][]string {
	const noScript = "0000000000000000000000000000000000000000"
	log, hash := key+":log", key+":hash"
	return [][]string{
		{"PING"},
		{"TIME"},
		{"EVAL", "return 1", "1", key},
		{"EVALSHA", noScript, "1", key},
		{"SET", key, "x", "PX", "60000"},
		{"GET", key},
		{"GETRANGE", key, "0", "0"},
		{"SETRANGE", key, "0", "y"},
		{"PTTL", key},
		{"ZADD", log, "1", "a"},
		{"PEXPIRE", log, "60000"},
		{"ZINCRBY", log, "1", "a"},
		{"ZCARD", log},
		{"ZCOUNT", log, "0", "9"},
		{"ZSCORE", log, "a"},
		{"ZRANGE", log, "0", "-1"},
		{"ZRANGEBYSCORE", log, "0", "9"},
		{"ZREMRANGEBYSCORE", log, "0", "0"},
		{"ZREMRANGEBYRANK", log, "5", "5"},
		{"ZREM", log, "a"},
		{"HSET", hash, "a", "b"},
		{"HSETNX", hash, "a", "b"},
		{"HGET", hash, "a"},
		{"HLEN", hash},
		{"HEXISTS", hash, "a"},
		{"HSCAN", hash, "0"},
		{"HGETALL", hash},
		{"HDEL", hash, "a"},
		{"DEL", key, log, hash},
		{"PUBLISH", channel, ""}, // an empty message, which stores ignore
	}
}

// inspectionCommands are the commands that are needed to list bans and to show the state of Redis,
// but not to decide.
var inspectionCommands = [][]string{{"SCAN", "0", "COUNT", "1"}, {"INFO", "server"}, {"DBSIZE"}}

func permissionOf(command []string) string { return "+" + strings.ToLower(command[0]) }

// connectionCommands are the permissions to open connections, and to begin and end subscriptions.
var connectionCommands = []string{"+hello", "+auth", "+client|setname", "+subscribe", "+unsubscribe"}

// allPermissions returns the permissions that a Redis user needs so that stint can decide.
func allPermissions(prefix string) []string {
	list := []string{"~" + prefix + ":*", "&" + prefix + ":room"}
	for _, command := range decisionCommands("", "") {
		list = append(list, permissionOf(command))
	}
	return append(list, connectionCommands...)
}

// permissions tries all commands that stint uses, and reports the permissions that the user lacks.
func (e *redisDiagnosis) permissions(ctx context.Context) {
	key, channel := e.prefix+":{doctor}:"+e.user, e.prefix+":room"
	if missing := e.missing(ctx, channel, decisionCommands(key, channel)); len(missing) > 0 {
		e.found.fail("permissions", fmt.Sprintf("the user %q lacks %s", e.user, strings.Join(missing, " ")),
			e.grant(missing))
	} else {
		e.found.ok("permissions", "the user %q has all permissions that decisions require", e.user)
	}
	if missing := e.missing(ctx, channel, inspectionCommands); len(missing) > 0 {
		e.found.warn("looking", fmt.Sprintf("bans and the state of Redis can be shown only in part: the user %q lacks %s",
			e.user, strings.Join(missing, " ")),
			e.grant(missing))
	}
}

// missing tries the commands, and returns the permissions that they require and the user lacks.
func (e *redisDiagnosis) missing(ctx context.Context, channel string, commands [][]string) []string {
	var missing []string
	need := func(permission string) {
		if !slices.Contains(missing, permission) {
			missing = append(missing, permission)
		}
	}
	for _, command := range commands {
		refused, ok := rueidis.IsRedisErr(e.client.Do(ctx, e.client.B().Arbitrary(command...).Build()).Error())
		if !ok || !strings.HasPrefix(refused.Error(), "NOPERM") {
			continue
		}
		switch text := refused.Error(); {
		case strings.Contains(text, "channel"):
			need("&" + channel)
		case strings.Contains(text, " key"):
			need("~" + e.prefix + ":*")
		default:
			need(permissionOf(command))
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
