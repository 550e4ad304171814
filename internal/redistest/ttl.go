package redistest

import (
	"slices"
	"testing"
)

// keysWithoutTTL is a script that returns the keys of stint that have no expiry, except the keys of
// tables.
const keysWithoutTTL = `
local found = {}
for _, key in ipairs(redis.call('KEYS', 'stint:*')) do
	if redis.call('PTTL', key) == -1 and key:sub(1, 12) ~= 'stint:table:' then
		found[#found + 1] = key
	end
end
return found`

// KeysWithoutTTL returns the keys that begin with "stint:" and have no expiry, sorted. It leaves
// out keys that begin with "stint:table:". It skips replicas and servers that are not running, so
// callers may pass all nodes of a cluster.
func KeysWithoutTTL(t testing.TB, servers ...*Server) []string {
	t.Helper()
	var found []string
	for _, srv := range servers {
		if srv.proc != nil && isMaster(srv) {
			found = append(found, srv.list(t, "EVAL", keysWithoutTTL, "0")...)
		}
	}
	slices.Sort(found)
	return found
}
