package faults

import "github.com/stint-limiter/stint/internal/redistest"

// wantTTLs is the end of every row: nothing of ours stays in Redis for ever. All nodes of a Cluster
// may be given; replicas and servers that are down are passed over.
func wantTTLs(r *report, servers ...*redistest.Server) {
	r.Helper()
	if keys := redistest.KeysWithoutTTL(r, servers...); len(keys) > 0 {
		r.Errorf("%d keys without a TTL, such as %q", len(keys), keys[0])
	}
}
