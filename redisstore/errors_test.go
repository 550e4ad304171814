package redisstore

import (
	"fmt"
	"testing"

	"github.com/stint-limiter/stint"
)

// F16, F29: servers, scripts and proxies word the same failure differently.
func TestKindsOfFailures(t *testing.T) {
	for text, want := range map[string]stint.ErrorKind{
		"READONLY You can't write against a read only replica.":                                stint.KindReadOnly,
		"READONLY You can't write against a read only replica. script: 9f, on @user_script:3.": stint.KindReadOnly,
		"ERR READONLY You can't write against a read only replica.":                            stint.KindReadOnly,
		"ERR Error running script (call to f_9f): @user_script:3: -READONLY You can't write":   stint.KindReadOnly,
		"NOAUTH Authentication required.":                                                      stint.KindAuth,
		"NOAUTH HELLO must be called with the client already authenticated":                    stint.KindAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":                        stint.KindAuth,
		"NOPERM this user has no permissions to run the 'evalsha' command":                     stint.KindAuth,
		"OOM command not allowed when used memory > 'maxmemory'.":                              stint.KindFull,
		"BUSY Redis is busy running a script.":                                                 stint.KindBusy,
		"ERR BUSYGROUP is not BUSYGROUP":                                                       stint.KindOther,
		"ERR unknown command":                                                                  stint.KindOther,
	} {
		if got := kindOf(fmt.Errorf("wrapped: %w", serverError(text))); got != want {
			t.Errorf("%q is of the kind %v; want %v", text, got, want)
		}
	}
}
