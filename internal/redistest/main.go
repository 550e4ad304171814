package redistest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package whose examples use the Redis server in REDIS_URL, and returns
// the exit code. Call it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// Main starts a server for the examples. With -short, it starts no server and skips the examples.
func Main(m *testing.M) (code int) {
	flag.Parse()
	if testing.Short() {
		return skipExamples(m)
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	s := prepare(dir)
	if err := s.start(); err != nil {
		return failed(err)
	}
	defer s.Kill()
	if err := os.Setenv("REDIS_URL", s.URL()); err != nil {
		return failed(err)
	}
	return m.Run()
}

func skipExamples(m *testing.M) int {
	skip := "^Example"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		skip = given + "|" + skip
	}
	if err := flag.Set("test.skip", skip); err != nil {
		return failed(err)
	}
	return m.Run()
}

func failed(err error) (code int) {
	fmt.Fprintln(os.Stderr, "redistest:", err)
	return 1
}
