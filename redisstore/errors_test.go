package redisstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// F16, F29: servers, scripts and proxies word the same failure differently.
func TestKindsOfFailures(t *testing.T) {
	for text, want := range map[string]stint.StoreErrorKind{
		"READONLY You can't write against a read only replica.":                                         stint.KindReadOnly,
		"READONLY You can't write against a read only replica. script: 9f, on @user_script:3.":          stint.KindReadOnly,
		"ERR READONLY You can't write against a read only replica.":                                     stint.KindReadOnly,
		"ERR Error running script (call to f_9f): @user_script:3: -READONLY You can't write":            stint.KindReadOnly,
		"NOAUTH Authentication required.":                                                               stint.KindAuth,
		"NOAUTH HELLO must be called with the client already authenticated":                             stint.KindAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":                                 stint.KindAuth,
		"NOPERM this user has no permissions to run the 'evalsha' command":                              stint.KindAuth,
		"OOM command not allowed when used memory > 'maxmemory'.":                                       stint.KindFull,
		"BUSY Redis is busy running a script.":                                                          stint.KindBusy,
		"NOREPLICAS Not enough good replicas to write. script: 9f, on @user_script:3.":                  stint.KindBusy,
		"MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.":        stint.KindBusy,
		"ERR The user executing the script can't run this command or subcommand script: 9f, on @user_s": stint.KindAuth,
		"ERR ACL failure in script: User limiter has no permissions to run the 'set' command":           stint.KindAuth,
		"ERR BUSYGROUP is not BUSYGROUP":                                                                stint.KindOther,
		"ERR unknown command":                                                                           stint.KindOther,
	} {
		if got := failureKind(fmt.Errorf("wrapped: %w", serverError(text))); got != want {
			t.Errorf("%q is of the kind %v; want %v", text, got, want)
		}
	}
}

// What a server said is found among the failures of a request on several subjects.
func TestKindsOfJoinedFailures(t *testing.T) {
	server := redistest.Start(t)
	c := testkit.Must(new(connection).newClient(t.Context(),
		rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true}))(t)
	defer c.Close()
	server.CLI(t, "ACL", "SETUSER", "default", "-get")
	refused := c.Do(t.Context(), c.B().Get().Key("a").Build()).Error()
	if got := failureKind(errors.Join(nil, refused)); got != stint.KindAuth {
		t.Errorf("%v is of the kind %v", refused, got)
	}
	_, odd := c.Do(t.Context(), c.B().Time().Build()).ToString()
	if got := failureKind(errors.Join(odd)); got != stint.KindReply {
		t.Errorf("%v is of the kind %v", odd, got)
	}
}
