// Package envoyrls is Envoy's rate limit service v3, a drop-in for envoyproxy/ratelimit: it reads that project's
// configuration and answers Envoy as it does, over any [stint.Store].
//
//	config, err := envoyrls.Load("/etc/ratelimit")
//	...
//	service, err := envoyrls.NewService(store, config, envoyrls.Options{})
//	...
//	rlsv3.RegisterRateLimitServiceServer(grpcServer, service)
//
// # What is as there
//
// The configuration, and which limit it finds for a descriptor: entry by entry, exactly its key and value, else the
// first wildcard in the order of the file, else its key alone; all entries have to lead to a limit. Keys and values are
// compared joined by an underscore. A limit in a request takes precedence, but not in a domain that is not configured.
// The statuses, their order, the name, the whole seconds until reset; unlimited, shadow mode, quota mode, replaces and
// share_threshold; the codes of errors. Two keys are read and have no effect, detailed_metric and value_to_metric:
// metrics never name what only a request says.
//
// # What is refused
//
// The other service accepts some files that are mistakes here, each of which tells what would be right: a known key where
// it has no meaning, such as unit beside key; a key given twice; a second document in a file, unless it is null; a window of
// more than 366 days; a directory without files; more than 16 MiB, 64 levels of descriptors or a million values. Files
// of a directory whose names end in something other than .yaml or .yml are not read. There is no MERGE_DOMAIN_CONFIG:
// two files with the same domain are always a mistake.
//
// # How it counts
//
// With [Sliding] windows a limit holds in any window, not only in those of the calendar, and all descriptors of a
// request are charged or none: a status is OVER_LIMIT for those without room, and OK with what is left for the others.
// Descriptors of one counter are decided together. Requests with more than [stint.MaxClaims] counters, and those with
// limits in quota mode beside others, are decided in steps, and what was charged is given back when a later step denies.
// All steps together have the Budget of the [stint.FailurePolicy]; what is left to give back after that is given back
// after the answer.
//
// With [Options.QuotaMode] a descriptor that has no limit is a quota with room, as there: it lets its request through.
//
// With [Fixed] windows every descriptor is counted by itself, admitted or not, so a request for more than is left uses
// up the window. Counters stop at the first denial of a window instead of counting on: that shows only if a limit is
// raised during the window, or hits are given back.
//
// A descriptor with zero hits only looks. It is OVER_LIMIT if more is used than the limit allows: in fixed windows, as
// there, not under a limit of zero, of which nothing is ever used; in sliding windows that has no room for anybody. Who looks before and
// charges after, as Envoy does with apply_on_stream_done, needs fixed windows: what is charged after the fact has to
// count even if there is no room for it, and in sliding windows nothing ever exceeds its limit.
//
// # Negative hits
//
// A descriptor with is_negative_hits gives its hits back and answers as one that only looks. In fixed windows the
// counter is lowered, not below zero, whichever process raised it. In sliding windows a process gives back what it has
// charged itself, of each counter the latest 16 charges, and of up to 32,768 counters; what it does not know of stays
// until it leaves its window.
package envoyrls
