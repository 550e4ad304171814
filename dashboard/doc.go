// Package dashboard serves a web page that shows operators the state of a limiter, and the API
// behind the page. The page shows whether the limiter is healthy, which subjects are limited, and
// whether the cause is an attack or a mistake in a policy. It is part of the binary and loads
// nothing from other hosts. The server serves it on its admin listener, and any program can mount
// it:
//
//	board, err := dashboard.New(ctx, dashboard.Config{
//		Monitor: monitor, Store: store, Set: guard.Set,
//		Protect: func(next http.Handler) http.Handler { return staffOnly(next) },
//		Who:     func(r *http.Request) (string, bool) { return staffName(r), mayOperate(r) },
//	})
//	...
//	http.Handle("/limits/", http.StripPrefix("/limits", board))
//
// # Access
//
// The page itself contains no data and is open to all callers. The API serves callers that
// [Config.Protect] lets through or, if Protect is nil, callers on this host. Changes also require a
// caller with a name and the right to operate; see [Config.Who]. Pages of other sites can never
// make changes. Each change that a caller with a name requests is logged with the message "audit",
// even if it fails or is not allowed.
//
// # API
//
//	GET  /api/state           all data that the page shows
//	GET  /api/stream          server-sent events: every second a "tick" with an [observe.Tick]
//	GET  /api/top             ?by=ip&n=20: the subjects with the most denials
//	GET  /api/violations      ?n=100: the last violations, newest last
//	GET  /api/processes       the processes that share their counts
//	GET  /api/why             ?id=…: a denial and its cause
//	GET  /api/why             ?subject=user:42&at=…, or ?ref=…&at=…: the denials of one subject
//	GET  /api/bans            ?n=100: bans in force
//	GET  /api/shadow          ?n=10: reports on shadow rules
//	GET  /api/subject         ?subject=user:42, or ?ref=…: the usage of one subject
//	GET  /api/limits          ?prefix=user:&n=100: overrides
//	GET  /api/limits/export   all overrides, one per line; for operators only
//	POST /api/limits/set      {"subject": "user:42", "policy": "api", "limits": ["500/1m"]}
//	POST /api/limits/unset    {"subject": "user:42", "policy": "api"}
//	POST /api/limits/import   {"overrides": […]}: the lines of an export
//	POST /api/reset           {"subject": "user:42"}, or {"ref": "…"}
//	POST /api/ban             {"subject": "user:42", "for": "10m"}
//	POST /api/unban           {"subject": "user:42"}
//	POST /api/take            {"subject": "user:42", "policy": "search", "cost": 3, "peek": true}
//
// Subjects are interpreted as on the command line (docs/cli.md), and answers contain the resulting
// subject; "raw": true takes a subject literally. Lists show operators the full subjects, and other
// callers shortened ones unless [Config.ShowSubjects] is set; ?names=short always shortens them.
// Each subject has a ref, which identifies it in other calls for the lifetime of the process. The
// answer to a refused request is {"error": "…", "message": "…"}.
package dashboard
