// Package dashboard serves a page about a limiter for operators, and the API behind it. It shows
// whether the limiter is healthy, who is limited, and whether that is an attack or a mistake in a
// policy. The page is part of the binary and loads nothing from elsewhere. The server serves it on
// its admin listener, and any program can mount it:
//
//	board, err := dashboard.New(ctx, dashboard.Config{
//		Monitor: monitor, Store: store, Set: guard.Set,
//		Guard: func(next http.Handler) http.Handler { return staffOnly(next) },
//		Who:   func(r *http.Request) (string, bool) { return staffName(r), mayOperate(r) },
//	})
//	...
//	http.Handle("/limits/", http.StripPrefix("/limits", board))
//
// # Access
//
// The page itself holds no data and is open to everyone. Its API serves callers that [Config.Guard]
// lets through or, without a Guard, callers on this host. Changes also require a name and the right
// to operate, see [Config.Who]. Pages of other sites can never make changes. Each change is logged
// with the message "audit".
//
// # API
//
//	GET  /api/state        everything at once
//	GET  /api/stream       server-sent events: every second a "tick", an [observe.Tick]
//	GET  /api/top          ?by=ip&n=20: what was denied most
//	GET  /api/violations   ?n=100: the last denials
//	GET  /api/bans         ?n=100: bans in force
//	GET  /api/shadow       ?n=10: what shadow rules would have done
//	GET  /api/subject      ?subject=user:42, or ?ref=…: what one subject has used
//	POST /api/reset        {"subject": "user:42"}, or {"ref": "…"}
//	POST /api/ban          {"subject": "user:42", "for": "10m"}
//	POST /api/unban        {"subject": "user:42"}
//	POST /api/take         {"subject": "user:42", "policy": "search", "cost": 3, "peek": true}
//
// A subject is read as the command line reads it (docs/cli.md), and answers name the subject meant;
// "raw": true takes it literally. Lists show subjects in full to operators, and shortened to
// others, unless [Config.ShowSubjects] is set; ?names=short shortens them for anyone. Each subject
// has a ref that stands for it in other calls for the lifetime of the process. Refused requests get
// {"error": "…", "message": "…"}.
package dashboard
