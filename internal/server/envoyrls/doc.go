// Package envoyrls is Envoy's rate limit service v3, a drop-in replacement for
// envoyproxy/ratelimit: it reads that project's configuration and answers Envoy in the same way,
// over any [stint.Store].
//
//	config, err := envoyrls.Load("/etc/ratelimit", false)
//	...
//	service, err := envoyrls.NewService(store, config, envoyrls.Options{})
//	...
//	service.Register(grpcServer)
//
// # What is as there
//
// The configuration, and which limit it finds for a descriptor: entry by entry, exactly its key and
// value, else the first wildcard in the order of the file, else its key alone; all entries have to
// lead to a limit. Keys and values are compared joined by an underscore. A limit in a request takes
// precedence, but not in a domain that is not configured. The statuses, their order, the name, the
// whole seconds until reset; unlimited, shadow mode, quota mode, replaces and share_threshold; the
// errors for requests without a domain or descriptors. Two keys are read and have no effect,
// detailed_metric and value_to_metric: metrics never name what only a request says.
//
// # What is refused
//
// The other service accepts some files that are mistakes here, each of which says what would be
// right: a known key where it has no meaning, such as unit beside key; a key given twice; a second
// document in a file, unless it is null; a window of more than 366 days; a directory without files;
// more than 16 MiB, 64 levels of descriptors or a million values. Files of a directory whose names
// end in something other than .yaml or .yml are not read. Two files with the same domain are a
// mistake, as there, unless [Read] is to merge domains.
//
// Requests have at most 256 descriptors with 4,096 entries in all, and limits that they bring along
// have to have a unit.
//
// # How it counts
//
// With [Sliding] windows a limit holds in any window, not only in those of the calendar, and all
// descriptors of a request are charged or none: a status is OVER_LIMIT for those without room, and
// OK with what is left for the others. Descriptors of one counter are decided together. Requests
// with more than [stint.MaxClaims] counters, and those with limits in quota mode beside others, are
// decided in steps, and what was charged is given back when a later step denies. All steps together
// have the Budget of the [stint.FailurePolicy]; what is left to give back after that is given back
// after the answer.
//
// With [Options.QuotaMode] a descriptor that has no limit is a quota with room, as there: it lets
// its request through. One that is unlimited is no quota, as there: it does not affect the answer.
//
// With [Fixed] windows every descriptor is counted by itself, admitted or not, so a request for
// more than is left uses up the window. Counters stop at the first denial of a window instead of
// counting on: that shows only if a limit is raised during the window, or hits are given back. With
// [Options.StopOverLimit] a request that is over one limit is charged to no other.
//
// A descriptor with zero hits only looks. It is OVER_LIMIT if more is used than the limit allows.
// That holds for a limit of zero too: in fixed windows, as there, once somebody has asked for more
// than a look; in sliding windows it has no room for anybody. Who looks before and charges after,
// as Envoy does with apply_on_stream_done, needs fixed windows: what is charged after the fact has
// to count even if there is no room for it, and in sliding windows nothing ever exceeds its limit.
//
// # Negative hits
//
// A descriptor with is_negative_hits gives its hits back and answers as one that only looks. The
// counter is lowered, not below zero, whichever process raised it: in fixed windows that of the
// current window, in sliding ones by the oldest hits, which would have left the window first. If
// the store fails to do so, the answer is the same and the hits stay.
//
// Who can give hits back has no limits. So requests with negative hits are refused as a whole, with
// PERMISSION_DENIED, unless [Options.NegativeHits] says that callers are known.
package envoyrls
