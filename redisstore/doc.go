// Package redisstore is for programs whose processes share limits: it keeps them in Redis or
// Valkey. Most programs open it with package stores, which adds what makes it ready for production:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//
// [Open] is the store alone. While Redis is away, every decision fails:
//
//	store, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://localhost:6379"})
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// Every decision on one subject is one EVALSHA in one hash slot: read, check all limits, charge all
// or none, set each key's TTL, and answer. The server's clock rules. A call is sent again only if
// the reply proves that nothing ran. The scripts that decide are in lua, one file per part of
// docs/rules.md.
//
// # Where to connect
//
//	redis://user:password@host:6379/0                      one server
//	rediss://host:6379                                     over TLS
//	rediss://host:6379?ca_file=ca.pem                      with another authority than the system's
//	rediss://host:6379?cert_file=me.pem&key_file=me.key    with a client certificate
//	redis://user@host:6379?password_file=secret            with the password in a file
//	redis://host1:26379?addr=host2:26379&master_set=main   Sentinel: its addresses and the master's name
//	redis://host1:7000?addr=host2:7000&addr=host3:7000     a Cluster: some of its nodes
//	unix:///run/redis.sock?db=1                            a Unix socket
//
// Certificates and keys are in PEM form. Open reads the files, and every new connection reads them
// again: they can be replaced while the program runs. A file that is missing or invalid then, or a
// certificate that is not valid while the last one is, changes nothing. With rediss, Sentinels and
// all nodes speak TLS, and their certificates are valid for the host of the URL.
//
// Open asks a server whether it belongs to a Cluster. Config.Client takes a rueidis client of the
// caller's instead of a URL; package goredis takes a go-redis one.
//
// # Connections
//
// A store connects in the background, and keeps trying. It has at most eight connections to a
// server: up to six for batches ([Store.TakeBatch]), each for one batch at a time, until its answer
// or its context's deadline; one that all other calls share; and one that listens. When all six are
// taken, batches share too: nothing is dialed because a server is slow. A connection for batches on
// which an answer is late is closed, and so is one that is idle for 30 s.
//
// [Config.AdjustClient] may set another number for batches (BlockingPoolSize) or for other calls
// (PipelineMultiplex). Batches share connections as other calls do if it sets DisableAutoPipelining
// to false, and with a [Config.Client] that pipelines.
//
// # What is kept
//
// All that is known of a subject lives under one hash tag:
//
//	stint:{user:42}:limits           what user:42 has used of its limits
//	stint:{user:42}:/search:limits   the same in the scope "/search"
//	stint:{user:42}:ban              its ban, stint:{user:42}:strikes what may lead to one
//	stint:{user:42}:seen             request ids, stint:{user:42}:settled refunds
//
// docs/redis-keys.md lists all of them.
//
// Every key has a TTL, always. Subjects are escaped so that any bytes are distinct and none can
// choose the slot; long ones are replaced by a hash.
//
// With [Config.NameKeys] there are hashes instead of names, as in
// stint:{user#4kWXjsbSBbkYkHdLyaQgIQ}:limits, and the key stint:names, which has no TTL.
//
// # Several subjects in one request
//
// On a single server, with or without Sentinel, they are decided in one call. On a Cluster they may
// live on different nodes: they are then charged in parallel, and what was charged is given back if
// one is denied. Never over; at worst, when a give-back is lost, over-charged for up to a window.
// Reserve is refused there.
//
// # Looking inside
//
// [Store.Inspect] needs no permission that decisions do not need. [Store.Bans] and [Store.Scopes]
// need scan. [Store.Info] asks by info and dbsize, and does without what is not permitted.
package redisstore
