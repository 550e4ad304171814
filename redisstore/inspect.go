package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

var _ driver.Inspector = (*Store)(nil)

// Inspect returns the usage of a subject. See [driver.Inspector]. It makes one call of a script
// that writes nothing.
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	if err := s.await(ctx, "inspect"); err != nil {
		return driver.Inspection{}, err
	}
	if err := contract.ValidateInspect(c); err != nil {
		return driver.Inspection{}, err
	}
	call, err := s.encodeInspect(c)
	if err != nil {
		return driver.Inspection{}, s.wrap("inspect", err)
	}
	reply, err := call.script.run(ctx, &s.conn, call.keys, call.args)
	if err != nil {
		return driver.Inspection{}, s.wrap("inspect", err)
	}
	shown, err := call.decodeInspect(c.Limits, reply)
	return shown, s.wrap("inspect", err)
}

func unknownOrRefused(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && (strings.Contains(refused.Error(), "unknown command") || failureKind(err) == stint.KindAuth)
}

// Scopes lists the scopes in which a subject has usage. See [driver.Inspector]. It scans the keys
// of the server that has the subject's keys, a thousand at a time, until it has scanned all keys or
// found [driver.MaxScopes] scopes. On a Cluster, scopes may be missing while the subject's slot is
// being moved. The Redis user needs permission for SCAN.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := s.await(ctx, "scopes"); err != nil {
		return nil, err
	}
	if err := contract.ValidateInspect((stint.Claim{Subject: subject})); err != nil {
		return nil, err
	}
	c, err := s.newShownCall(inspectScript)
	if err != nil {
		return nil, s.wrap("scopes", err)
	}
	begin := string(c.beginKey(nil, subject, ""))
	found := map[string]struct{}{}
	nodes, _, err := s.servers(ctx, begin)
	if err == nil {
		err = scan(ctx, nodes, escapeGlob(begin)+"*", func(_ rueidis.Client, keys []string) (bool, error) {
			for _, key := range keys {
				if len(found) == driver.MaxScopes {
					return false, nil
				}
				if scope, ok := scopeIn(strings.TrimPrefix(key, begin)); ok {
					found[scope] = struct{}{}
				}
			}
			return true, nil
		})
	}
	if err != nil {
		return nil, s.wrap("scopes", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// scopeIn returns the scope in the part of a key after the subject. If only the hash of the scope
// is known, it returns the hash. It also reports whether the key belongs to limits: such a key ends
// with stateKey, followed by the limits' name if they have one, or with the ID of a concurrency
// limit. The key for the holds of named limits counts, too.
func scopeIn(rest string) (scope string, ok bool) {
	text, id, scoped := strings.Cut(rest, ":")
	if !scoped {
		text, id = "", rest
	}
	if id != stateKey && !strings.Contains(id, "/") {
		return "", false
	}
	if scope, ok := keypart.Read(text); ok {
		return scope, true
	}
	return text, true
}
