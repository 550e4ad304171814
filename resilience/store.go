package resilience

import "context"

// What a store may offer beside [stint.Store]; package redisstore offers all of it.

// Pinger can be asked cheaply whether it is there.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Roster counts the processes that share it.
type Roster interface {
	// Present says that the process of that id is there, for the next ten seconds,
	// and returns how many are.
	Present(ctx context.Context, id string) (int, error)
}

// Announcer tells of subjects that got room back in whatever process.
type Announcer interface {
	// Announcements calls f with each such subject, with its hash if keys hold only that,
	// or with "" if it could be anyone's, until the context ends or the connection is lost.
	// Commanded is whether it was reset, banned or unbanned, rather than given something back.
	Announcements(ctx context.Context, f func(subject string, commanded bool)) error
}
