package server

import (
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/server/control"
)

const operator = "token-of-an-operator"

// withOperator has alice as the operator of a server.
func withOperator(t *testing.T, c Config) Config {
	t.Helper()
	c.AdminTokens = filepath.Join(t.TempDir(), "tokens")
	put(t, c.AdminTokens, "alice: "+operator+"\n")
	return c
}

// operate returns a client of the admin listener.
func (r *running) operate(token string) *control.Client {
	r.t.Helper()
	c, err := control.NewClient(r.url(Admin, ""), token)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}
