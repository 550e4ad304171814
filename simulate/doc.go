// Package simulate answers what limits would have done to traffic that is already in a log. It replays the requests in
// virtual time through the guard, the rules and the algorithms that judge live ones:
//
//	log, err := accesslog.Open(paths, accesslog.Options{})
//	...
//	result, err := simulate.Run(ctx, log, simulate.Options{Set: set})
//
// The decisions are those of a server with a store of its own that got the same requests at the same times. What it cannot
// know is what callers would have done once they were denied, and what logs do not have: how long a request took, so
// that limits on concurrency see one request at a time, and the header fields that nobody logged.
//
// Memory is bounded by the number of subjects, not by the length of the log. Up to [Options.MaxSubjects] of them are told
// apart, which takes about 200 bytes for each. What the store keeps of a subject comes on top: 450 bytes with three windows
// of few requests, and 4 KiB at most on the average. If that is not enough the result says so.
package simulate
