// Package redisstore keeps limits in Redis or Valkey, for programs whose processes share limits.
// Most programs open it with package stores, which adds what production needs:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//
// [Open] opens only the store. While Redis is unavailable, every decision fails:
//
//	store, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://localhost:6379"})
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// A decision on one subject takes one EVALSHA in one hash slot. The script reads the usage, checks
// all limits, charges all of them or none, sets the TTL of each key, and answers. It uses the clock
// of the server. The store repeats a call only if the reply proves that nothing ran. The scripts
// are in the directory lua; lua/start.lua describes how to read them.
//
// # Where to connect
//
//	redis://user:password@host:6379/0                      one server
//	rediss://host:6379                                     over TLS
//	rediss://host:6379?ca_file=ca.pem                      with a certificate authority other than the system's
//	rediss://host:6379?cert_file=me.pem&key_file=me.key    with a client certificate
//	redis://user@host:6379?password_file=secret            with the password in a file
//	redis://host1:26379?addr=host2:26379&master_set=main   Sentinel: its addresses and the master's name
//	redis://host1:7000?addr=host2:7000&addr=host3:7000     a Cluster: some of its nodes
//	unix:///run/redis.sock?db=1                            a Unix socket
//
// Certificates and keys are in PEM form. Open reads the files, and every new connection reads them
// again: they can be replaced while the program runs. If a file is missing or invalid at that time,
// the store keeps what it read before. It does the same if the new certificate is not valid and the
// previous one still is. With rediss, Sentinels and all nodes must speak TLS, with certificates
// that are valid for the host of the URL.
//
// Open asks a server whether it belongs to a Cluster. Config.Client takes the caller's rueidis
// client instead of a URL; package goredis takes a go-redis client.
//
// # Connections
//
// A store connects in the background, and keeps trying. It has at most eight connections to a
// server: up to six for batches ([Store.TakeBatch]), one that all other calls share, and one that
// listens. A connection for batches serves one batch at a time, until the batch is answered or its
// context's deadline has passed. When all six are in use, batches use the shared connection, too,
// so a slow server does not cause more connections. The store closes a connection for batches when
// an answer is late, or when it is idle for 30 s.
//
// [Config.AdjustClient] may set a different number of connections for batches (BlockingPoolSize) or
// for other calls (PipelineMultiplex). Batches share connections with other calls if AdjustClient
// sets DisableAutoPipelining to false, or if a [Config.Client] pipelines.
//
// # Keys
//
// All data of a subject has the same hash tag:
//
//	stint:{user:42}:limits           the usage of user:42 under its limits
//	stint:{user:42}:/search:limits   the same in the scope "/search"
//	stint:{user:42}:ban              its ban
//	stint:{user:42}:strikes          the denials that may lead to a ban
//	stint:{user:42}:seen             request ids
//	stint:{user:42}:settled          settled charges
//
// docs/redis-keys.md lists all keys.
//
// Every key of a subject has a TTL. Subjects are escaped so that different subjects never share a
// key and a subject cannot choose its slot. Long subjects are replaced with a hash.
//
// With [Config.NameKeys], keys have hashes instead of names, as in
// stint:{user#4kWXjsbSBbkYkHdLyaQgIQ}:limits, and there is a key stint:names, which has no TTL.
//
// # Several subjects in one request
//
// A single server, with or without Sentinel, decides such a request in one call. On a Cluster, the
// subjects may be on different nodes: the store then charges each subject in its own call, and
// gives the charges back if one is denied. No limit is ever exceeded. At worst, if a charge cannot
// be given back, the subject has less left than it should, for up to the length of a window. On a
// Cluster, Reserve is refused for several subjects.
//
// # Inspection
//
// [Store.Inspect] needs only the permissions that decisions need. [Store.Bans] and [Store.Scopes]
// need SCAN. [Store.Info] uses TIME, INFO and DBSIZE, and leaves out what is not permitted.
package redisstore
