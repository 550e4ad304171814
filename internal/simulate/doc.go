// Package simulate reports what limits would have done to past traffic. It replays the requests of
// an access log in virtual time, through the same guard, rules and algorithms that decide live
// requests:
//
//	log, err := accesslog.Open(paths, accesslog.Options{})
//	...
//	result, err := simulate.Run(ctx, log, simulate.Options{Set: set})
//
// A replay makes the decisions that a server with its own store would have made if it had received
// the same requests at the same times. It does not know what callers would have done after a
// denial. Nor does it know what the log does not contain: header fields that were not logged, and
// how long requests took. So concurrency limits see one request at a time.
//
// Memory grows with the number of subjects, not with the length of the log. Up to
// [Options.MaxSubjects] subjects are counted separately, at about 320 bytes each. The store needs
// more memory: 450 bytes for a subject with three windows and few requests, and at most 4 KiB on
// average. If that is not enough, the result reports it.
package simulate
