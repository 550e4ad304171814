// Package dashboard is a page about a limiter, and the API behind it: is it healthy, who is limited, is it an attack or a
// mistake in a policy. The page is in the binary and needs nothing from elsewhere. The server has it on its admin listener; a
// program of your own can have it anywhere:
//
//	board, err := dashboard.New(dashboard.Config{
//		Monitor: monitor, Desk: desk, Set: guard.Set,
//		Guard: func(next http.Handler) http.Handler { return staffOnly(next) },
//		Who:   func(r *http.Request) (string, bool) { return staffName(r), mayOperate(r) },
//	})
//	...
//	defer board.Close()
//	http.Handle("/limits/", http.StripPrefix("/limits", board))
//
// # Who is answered
//
// The page itself holds no data and is for everybody. All that it asks for is for those whom [Config.Guard] lets through,
// and without one for callers on this host. Changes are for those who have a name besides, and may operate: see [Config.Who]. They
// are never made for pages of other sites, and each is written to the log, with the message "audit".
//
// # What is asked for
//
//	GET  /api/state        everything at once
//	GET  /api/stream       server-sent events: every second a "tick", an [observe.Tick]
//	GET  /api/top          ?by=ip&n=20: who was denied most
//	GET  /api/violations   ?n=100: the last denials
//	GET  /api/bans         ?n=100: bans in force
//	GET  /api/shadow       ?n=10: what rules in shadow would have done
//	GET  /api/subject      ?subject=user:42, or ?ref=…: what one subject has used
//	POST /api/reset        {"subject": "user:42"}, or {"ref": "…"}
//	POST /api/ban          {"subject": "user:42", "for": "10m"}
//	POST /api/unban        {"subject": "user:42"}
//	POST /api/take         a [control.Ask]
//
// A subject is read as [policy.Set.Subject] says, and answers have the one that is meant; "raw": true takes it as it is.
// Lists show subjects shortened, unless [Config.ShowSubjects] is set, each with a ref that stands for it in other calls for
// as long as the process lives. What is refused is answered with {"error": "…", "message": "…"}.
package dashboard
